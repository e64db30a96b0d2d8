/** Reports a lost kernel and an interrupt without effect above a notebook, in both pages, and starts its kernel on a remote. */
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import type { Session } from '@jupyterlab/services';
import type { CommandRegistry } from '@lumino/commands';
import { splitSpecName } from '../backends/spec-names.js';
import type { IBridgeBackends } from '../backends/tokens.js';
import { StoredOutputsApi } from '../reattach/stored-outputs-api.js';
import { watchInterrupts } from './interrupt-watch.js';
import { type ILostKernelWatchOptions, LostKernelWatch } from './lost-kernel-watch.js';

/** A remote that the hub reports as connected is one round trip away. */
const SERVING_WAIT_MS = 30_000;

interface IStartOnMachine {
  readonly backends: IBridgeBackends;
  readonly sessions: Pick<Session.IManager, 'refreshRunning' | 'running'>;
  /** Of the notebook. */
  readonly context: Pick<DocumentRegistry.Context, 'path' | 'sessionContext'>;
}

interface IPageOfNotebook extends Pick<ILostKernelWatchOptions, 'onChoose' | 'onShow'> {
  readonly backends: IBridgeBackends;
  readonly sessions: IStartOnMachine['sessions'];
  readonly commands: CommandRegistry;
  readonly actions: Pick<typeof NotebookActions, 'executed' | 'runCells'>;
  /** Where a notice of this kind is shown. */
  readonly placeOf: (id: 'gone' | 'interrupt') => ILostKernelWatchOptions['notice'];
  /** Whether the page's commands concern this notebook now. */
  readonly isCurrent: () => boolean;
}

/** Watches the kernel until the notebook is closed. */
export function watchKernel(
  { content, context, disposed }: NotebookPanel,
  page: IPageOfNotebook
): LostKernelWatch {
  const { actions, backends, sessions, placeOf } = page;
  const { sessionContext } = context;
  const lost = new LostKernelWatch({
    ...page,
    notebook: content,
    sessionContext,
    executed: actions.executed,
    runCells: actions.runCells,
    remotes: backends.remotes,
    notice: placeOf('gone'),
    mirrored: (remote, signal) =>
      new StoredOutputsApi(() => backends.bridge.serverSettings, remote).kernels(signal),
    onStart: name => startOnMachine({ backends, sessions, context }, name)
  });
  const interrupts = watchInterrupts({ ...page, sessionContext, notice: placeOf('interrupt') });
  disposed.connect(() => {
    interrupts.dispose();
    lost.dispose();
  });
  return lost;
}

/** Connects a notebook with its kernel on a remote: its running kernel, else a new one. Rejects when there is no kernel; Lab has then reported why. */
export async function startOnMachine(
  { backends, sessions, context }: IStartOnMachine,
  specName: string
): Promise<void> {
  const { sessionContext } = context;
  const backend = backends.gateway(splitSpecName(specName).place);
  // The start below reports its error.
  await backend?.serving(SERVING_WAIT_MS).catch(() => undefined);
  // It may have a kernel there already, started after the first list of this page.
  await sessions.refreshRunning().catch(() => undefined);
  if (sessionContext.isDisposed || sessionContext.session?.kernel) return;
  const running = [...sessions.running()].find(({ path }) => path === context.path);
  await sessionContext.changeKernel(running?.kernel ? { id: running.kernel.id } : { name: specName });
}
