/** Lets users choose where a notebook runs if its remote is unknown or down, instead of leaving it waiting. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { type INotebookModel, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator } from '@jupyterlab/translation';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { remoteOfPlace, splitSpecName } from '../backends/spec-names.js';
import { NoticePlace } from '../ui/notebook-notice.js';
import { CommandIDs } from '../commands.js';
import { IBridgeBackends } from '../backends/tokens.js';
import { whenever } from '../platform/wait.js';
import { unreachableRemote, type IAbsentRemote } from './model.js';
import { startOnMachine, watchKernel } from './watch-kernel.js';
import { trans, translateWith } from '../text/trans.js';

/** How long a notebook waits for the list of remotes before it is opened like any other. */
const LIST_WAIT_MS = 3_000;
/** Setting up an empty VM takes minutes; the user sees the dialog meanwhile. */
const CONNECT_WAIT_MS = 30 * 60_000;

export const absentPlugin: JupyterFrontEndPlugin<void> = {
  id: '@tpulab/labextension:absent-remote',
  description:
    'Asks what a notebook should run on when its machine is not connected, and says when its kernel went with the machine.',
  autoStart: true,
  requires: [IBridgeBackends],
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, backends: IBridgeBackends, translator: ITranslator | null): void => {
    translateWith(translator);
    const { commands, serviceManager, shell } = app;
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel: NotebookPanel, context: DocumentRegistry.IContext<INotebookModel>): IDisposable =>
        new Guard(app, backends, panel, context)
    });
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel: NotebookPanel): void => {
        watchKernel(panel, {
          ...{ backends, commands, sessions: serviceManager.sessions, actions: NotebookActions },
          placeOf: () => new NoticePlace(panel.contentHeader),
          isCurrent: () => shell.currentWidget === panel,
          onChoose: () => {
            shell.activateById(panel.id);
            void commands.execute('notebook:change-kernel');
          },
          onShow: name => void commands.execute(CommandIDs.manage, { name })
        });
      }
    });
  }
};

/** Prevents Lab from starting a kernel for this notebook until the user has chosen. */
class Guard extends DisposableDelegate {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly backends: IBridgeBackends,
    private readonly panel: NotebookPanel,
    private readonly context: DocumentRegistry.IContext<INotebookModel>
  ) {
    super(() => context.model.contentChanged.disconnect(this.onContent, this));
    // The content arrives before Lab searches for a kernel; only then is the name of the kernel known.
    context.model.contentChanged.connect(this.onContent, this);
  }

  private onContent(): void {
    const { context } = this;
    const name = context.model.defaultKernelName;
    if (name === '' || this._isDone) return;
    this._isDone = true;
    context.model.contentChanged.disconnect(this.onContent, this);
    if (remoteOfPlace(splitSpecName(name).place) === null) return;
    // Also while the remote is connected: the lists of its kernelspecs and sessions may arrive later than Lab's decision, which
    // would then ask for another kernel. Lab reads this preference when it starts one; a known session is adopted in any
    // case.
    this.prefer(false);
    void this.choose(name);
  }

  private async choose(specName: string): Promise<void> {
    const { backends, context } = this;
    const { remotes } = backends;
    await Promise.all([context.ready, remotes.settled(LIST_WAIT_MS), context.sessionContext.ready]);
    const unreachable = unreachableRemote(specName, each => remotes.get(each), true);
    if (this.isDisposed || context.sessionContext.session?.kernel) {
      this.prefer(true);
      return;
    }
    if (unreachable === null) {
      await this.start(specName);
      return;
    }
    await this.panel.revealed;
    switch (await this.prompt(unreachable)) {
      case 'connect':
        await this.connect(specName, unreachable);
        break;
      case 'back':
        await this.start(specName);
        break;
      case 'local':
        this.prefer(true);
        await this.app.commands.execute('notebook:change-kernel');
        break;
      case 'none':
        break;
    }
  }

  /** Closes itself when the remote is connected before the user has chosen. */
  private async prompt(unreachable: IAbsentRemote): Promise<Choice | 'back'> {
    const isPreempted = this.backends.remotes.get(unreachable.name)?.state === 'preempted';
    const dialog = choiceDialog(this.context.localPath, unreachable, isPreempted);
    const decided = new AbortController();
    const reconnection = this.connected(unreachable.name, decided.signal).then(isConnected => {
      dialog.reject();
      return isConnected;
    });
    const { button } = await dialog.launch();
    decided.abort();
    return (await reconnection) ? 'back' : ((button.actions[0] as Choice | undefined) ?? 'none');
  }

  private async connect(specName: string, { name, why }: IAbsentRemote): Promise<void> {
    const { backends } = this;
    if (why === 'down') await backends.remotes.api.connect(name).catch(() => undefined);
    void this.app.commands.execute(CommandIDs.connect, why === 'down' ? { name } : {});
    if (await this.connected(name, AbortSignal.timeout(CONNECT_WAIT_MS))) await this.start(specName);
  }

  private async start(specName: string): Promise<void> {
    const { app, backends, context } = this;
    const { sessions } = app.serviceManager;
    // Lab itself reports a failed start.
    await startOnMachine({ backends, sessions, context }, specName).catch(() => undefined);
    this.prefer(true);
  }

  /** False when the notebook was closed, got another kernel, or `signal` ends the wait. */
  private async connected(name: string, signal: AbortSignal): Promise<boolean> {
    const { backends, context } = this;
    const { sessionContext } = context;
    const isConnected = (): boolean =>
      backends.remoteBackends.some(each => each.remoteName === name && each.state === 'ok');
    const isOver = (): boolean => context.isDisposed || sessionContext.session?.kernel != null;
    const signals = [backends.changed, context.disposed, sessionContext.kernelChanged];
    await whenever(signals, () => isConnected() || isOver(), signal).catch(() => undefined);
    return isConnected() && !isOver();
  }

  private prefer(shouldStart: boolean): void {
    const { sessionContext } = this.context;
    sessionContext.kernelPreference = { ...sessionContext.kernelPreference, shouldStart };
  }

  private _isDone = false;
}

type Choice = 'connect' | 'local' | 'none';

/** The choice is the only action of its button. */
function choiceDialog(path: string, { name, why }: IAbsentRemote, isPreempted: boolean): Dialog<unknown> {
  const actions = (choice: Choice): Choice[] => [choice];
  return new Dialog({
    title: trans.__('The kernel of this notebook is on "%1"', name),
    body:
      why === 'unknown'
        ? trans.__('"%1" was last run on the machine "%2", which is not known here.', path, name)
        : isPreempted
          ? trans.__(
              '"%1" was last run on the machine "%2", which was preempted. The output of its cells is saved on this computer. Recreate the machine, then connect.',
              path,
              name
            )
          : trans.__('"%1" was last run on the machine "%2", which is not connected.', path, name),
    buttons: [
      Dialog.cancelButton({ label: trans.__('No kernel'), actions: actions('none') }),
      Dialog.createButton({ label: trans.__('Use a local kernel…'), actions: actions('local') }),
      Dialog.okButton({
        label: why === 'down' ? trans.__('Connect') : trans.__('Connect to a TPU…'),
        actions: actions('connect')
      })
    ]
  });
}
