/** Reports above a notebook that an interrupt has had no effect yet, and offers a restart. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import type { NoticePlace } from '../ui/notebook-notice.js';
import { trans } from '../text/trans.js';

interface IInterruptWatchOptions {
  readonly commands: CommandRegistry;
  readonly sessionContext: Pick<ISessionContext, 'session' | 'statusChanged'>;
  /** Whether the command concerns this notebook now. */
  readonly isCurrent: () => boolean;
  readonly notice: Pick<NoticePlace, 'show' | 'clear'>;
}

/** An interrupted compilation may take three seconds to end. */
const WAIT_MS = 4_000;

export function watchInterrupts(options: IInterruptWatchOptions): IDisposable {
  const { commands, sessionContext, isCurrent, notice } = options;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = (): void => {
    clearTimeout(timer);
    notice.clear();
  };
  const onExecuted = (_: unknown, { id }: CommandRegistry.ICommandExecutedArgs): void => {
    if (id !== 'notebook:interrupt-kernel' || !isCurrent()) return;
    clearTimeout(timer);
    if (sessionContext.session?.kernel?.status !== 'busy') return;
    timer = setTimeout(() => {
      notice.show({
        text: trans.__(
          'The kernel has not reacted to the interrupt yet: a running XLA program cannot be interrupted. The interrupt takes effect when the program ends. To end it now, restart the kernel.'
        ),
        actions: [
          {
            label: trans.__('Restart the kernel…'),
            stays: true,
            onClick: () => void commands.execute('notebook:restart-kernel')
          }
        ]
      });
    }, WAIT_MS);
  };
  const onStatus = (_: unknown, status: string): void => {
    if (status !== 'busy') end();
  };
  commands.commandExecuted.connect(onExecuted);
  sessionContext.statusChanged.connect(onStatus);
  return new DisposableDelegate(() => {
    end();
    commands.commandExecuted.disconnect(onExecuted);
    sessionContext.statusChanged.disconnect(onStatus);
  });
}
