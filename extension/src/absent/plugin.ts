/** Lets people choose what a notebook runs on whose remote is unknown or down, instead of leaving it waiting. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { Backends } from '../backends/backends.js';
import { CommandIDs } from '../remotes/commands.js';
import { IBridgeBackends } from '../tokens.js';
import { absentRemote, type IAbsentRemote } from './model.js';

/** How long a notebook waits for the list of remotes before it is opened as any other. */
const LIST_WAIT_MS = 3_000;
/** A VM that is set up from nothing takes minutes; somebody watches the dialog meanwhile. */
const CONNECT_WAIT_MS = 30 * 60_000;

export const absentPlugin: JupyterFrontEndPlugin<void> = {
  id: '@tpulab/labextension:absent-remote',
  description: 'Asks what a notebook should run on when its remote is not connected.',
  autoStart: true,
  requires: [IBridgeBackends],
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, backends: IBridgeBackends, translator: ITranslator | null): void => {
    if (!(backends instanceof Backends)) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('tpulab');
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel: NotebookPanel, context: DocumentRegistry.IContext<INotebookModel>): IDisposable =>
        new Guard(app, backends, panel, context, trans)
    });
  }
};

/** Stops Lab from starting a kernel for this notebook until somebody has chosen. */
class Guard extends DisposableDelegate {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly backends: Backends,
    private readonly panel: NotebookPanel,
    private readonly context: DocumentRegistry.IContext<INotebookModel>,
    private readonly trans: TranslationBundle
  ) {
    super(() => context.model.contentChanged.disconnect(this.onContent, this));
    // The content arrives before Lab looks for a kernel; only then is the name of the kernel known.
    context.model.contentChanged.connect(this.onContent, this);
  }

  private onContent(): void {
    const { context } = this;
    const name = context.model.defaultKernelName;
    if (name === '' || this._isDone) {
      return;
    }
    this._isDone = true;
    context.model.contentChanged.disconnect(this.onContent, this);
    const { remotes } = this.backends;
    const isOfRemote = absentRemote(name, () => null, true) !== null;
    const isThere = absentRemote(name, each => remotes.get(each), true) === null;
    if (!isOfRemote || isThere) {
      return;
    }
    // Lab asks this preference when it starts a kernel; a session that exists already is taken all the same.
    this.prefer(false);
    void this.choose(name);
  }

  private async choose(specName: string): Promise<void> {
    const { backends, context } = this;
    const { remotes } = backends;
    await Promise.all([context.ready, remotes.settled(LIST_WAIT_MS), context.sessionContext.ready]);
    const absent = absentRemote(specName, each => remotes.get(each), true);
    if (this.isDisposed || context.sessionContext.session?.kernel) {
      this.prefer(true);
      return;
    }
    if (absent === null) {
      await this.start(specName);
      return;
    }
    await this.panel.revealed;
    switch (await ask(context.localPath, absent, this.trans)) {
      case 'connect':
        await this.connect(specName, absent);
        break;
      case 'local':
        this.prefer(true);
        await this.app.commands.execute('notebook:change-kernel');
        break;
      case 'none':
        break;
    }
  }

  private async connect(specName: string, { name, why }: IAbsentRemote): Promise<void> {
    const { backends } = this;
    if (why === 'down') {
      await backends.remotes.api.connect(name).catch(() => undefined);
    }
    void this.app.commands.execute(CommandIDs.connect, why === 'down' ? { name } : {});
    if (await this.connected(name)) {
      await this.start(specName);
    }
  }

  private async start(specName: string): Promise<void> {
    const { sessions } = this.app.serviceManager;
    this.prefer(true);
    // It may have a kernel there already, which the first list of this page came too early for.
    await sessions.refreshRunning().catch(() => undefined);
    const running = [...sessions.running()].find(({ path }) => path === this.context.path);
    const kernel = running?.kernel ? { id: running.kernel.id } : { name: specName };
    // What cannot be started is said by Lab itself.
    await this.context.sessionContext.changeKernel(kernel).catch(() => undefined);
  }

  /** False when the notebook was closed, got another kernel, or nothing came of it for long. */
  private connected(name: string): Promise<boolean> {
    const { backends, context } = this;
    return new Promise(resolve => {
      const finish = (isUp: boolean): void => {
        clearTimeout(timer);
        backends.changed.disconnect(look);
        context.disposed.disconnect(stop);
        context.sessionContext.kernelChanged.disconnect(stop);
        resolve(isUp);
      };
      const stop = (): void => finish(false);
      const look = (): void => {
        if (backends.remoteBackends.some(each => each.remoteName === name && each.state === 'ok')) {
          finish(true);
        }
      };
      const timer = setTimeout(stop, CONNECT_WAIT_MS);
      backends.changed.connect(look);
      context.disposed.connect(stop);
      context.sessionContext.kernelChanged.connect(stop);
      look();
    });
  }

  private prefer(shouldStart: boolean): void {
    const { sessionContext } = this.context;
    sessionContext.kernelPreference = { ...sessionContext.kernelPreference, shouldStart };
  }

  private _isDone = false;
}

type Choice = 'connect' | 'local' | 'none';

async function ask(path: string, { name, why }: IAbsentRemote, trans: TranslationBundle): Promise<Choice> {
  const choices: Choice[] = ['none', 'local', 'connect'];
  const { button } = await showDialog({
    title: trans.__('The kernel of this notebook is on "%1"', name),
    body:
      why === 'unknown'
        ? trans.__('"%1" was last run on the remote "%2", which is not known here.', path, name)
        : trans.__('"%1" was last run on the remote "%2", which is not connected.', path, name),
    buttons: [
      Dialog.cancelButton({ label: trans.__('No kernel') }),
      Dialog.createButton({ label: trans.__('Use a local kernel…') }),
      Dialog.okButton({ label: why === 'down' ? trans.__('Connect') : trans.__('Connect to a TPU VM…') })
    ]
  });
  return choices[[trans.__('No kernel'), trans.__('Use a local kernel…')].indexOf(button.label)] ?? 'connect';
}
