/** Reattaches notebooks to what their kernels on a bridge have done while no page was there. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { MainAreaWidget, Notification } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import type { IChangedArgs } from '@jupyterlab/coreutils';
import { Backends } from '../backends/backends.js';
import { IBridgeBackends, IBridgeEvents } from '../tokens.js';
import { LabNotebook } from './lab-notebook.js';
import { OutputsApi } from './outputs-api.js';
import { type IReattached, reattach } from './reattachment.js';
import { UnplacedOutputs } from './unplaced-view.js';

/** A page that is opened while the bridge is away tries again this often, each time when the connection is back. */
const MAX_ATTEMPTS = 5;
/** Longer than any journal takes to be read. */
const ATTEMPT_TIMEOUT_MS = 120_000;

export const reattachPlugin: JupyterFrontEndPlugin<void> = {
  id: '@tpulab/labextension:reattach',
  description: 'Places outputs made while no page was open, and lets running cells go on after a reload.',
  autoStart: true,
  requires: [IBridgeBackends, INotebookTracker],
  optional: [IBridgeEvents, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    backends: IBridgeBackends,
    notebooks: INotebookTracker,
    events: IBridgeEvents | null,
    translator: ITranslator | null
  ): void => {
    if (!(backends instanceof Backends)) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('tpulab');
    // A second view of a notebook shows the same model, so one of them is enough.
    const followed = new WeakSet<object>();
    notebooks.widgetAdded.connect((_, panel) => {
      if (!followed.has(panel.context)) {
        followed.add(panel.context);
        follow(panel, { app, backends, events, trans });
      }
    });
  }
};

interface IParts {
  readonly app: JupyterFrontEnd;
  readonly backends: Backends;
  readonly events: IBridgeEvents | null;
  readonly trans: TranslationBundle;
}

function follow(panel: NotebookPanel, parts: IParts): void {
  const { sessionContext } = panel;
  let abort = new AbortController();
  const onKernel = (
    _: unknown,
    { newValue }: IChangedArgs<Kernel.IKernelConnection | null, Kernel.IKernelConnection | null, 'kernel'>
  ): void => {
    abort.abort();
    abort = new AbortController();
    if (newValue) {
      void attach(panel, newValue, parts, abort.signal);
    }
  };
  sessionContext.kernelChanged.connect(onKernel);
  const kernel = sessionContext.session?.kernel;
  if (kernel) {
    void attach(panel, kernel, parts, abort.signal);
  }
  panel.disposed.connect(() => {
    abort.abort();
    sessionContext.kernelChanged.disconnect(onKernel);
  });
}

/** Never rejects. */
async function attach(
  panel: NotebookPanel,
  kernel: Kernel.IKernelConnection,
  parts: IParts,
  signal: AbortSignal
): Promise<void> {
  const { backends, events } = parts;
  await Promise.all([panel.context.ready, panel.revealed]);
  for (let attempt = 1; attempt <= MAX_ATTEMPTS && !signal.aborted; attempt += 1) {
    const sockets = backends.socketsOf(kernel.id, kernel.name);
    if (sockets === null) {
      return; // a kernel of the page's own server, which keeps nothing
    }
    try {
      const result = await reattach({
        kernel,
        link: sockets.link(kernel.id, kernel.clientId),
        api: new OutputsApi(() => backends.backendOf(kernel.id)?.serverSettings ?? null, kernel.id),
        notebook: new LabNotebook(panel),
        isAttachedElsewhere: session => events?.telemetryOf(kernel.id).client(session) != null,
        signal: AbortSignal.any([signal, AbortSignal.timeout(ATTEMPT_TIMEOUT_MS)])
      });
      report(panel, kernel, result, parts);
      return;
    } catch {
      // The bridge or the connection is away, which the status bar shows; once it is back the question makes sense again.
      await connectedAgain(kernel, signal);
    }
  }
}

function connectedAgain(kernel: Kernel.IKernelConnection, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const done = (): void => {
      clearTimeout(timer);
      kernel.connectionStatusChanged.disconnect(look);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const look = (_: unknown, status: Kernel.ConnectionStatus): void => {
      if (status === 'connected') {
        done();
      }
    };
    const timer = setTimeout(done, 10_000);
    kernel.connectionStatusChanged.connect(look);
    signal.addEventListener('abort', done);
  });
}

function report(
  panel: NotebookPanel,
  kernel: Kernel.IKernelConnection,
  { unplaced }: IReattached,
  { app, trans }: IParts
): void {
  if (unplaced.length === 0) {
    return;
  }
  const message = trans._n(
    'One cell of "%2" put out something that has no place: its code was changed, or the cell was removed, since it was run.',
    '%1 cells of "%2" put out something that has no place: their code was changed, or the cells were removed, since they were run.',
    unplaced.length,
    panel.context.localPath
  );
  Notification.warning(message, {
    autoClose: false,
    actions: [
      {
        label: trans.__('Show the output'),
        callback: () => {
          const content = new UnplacedOutputs({
            unplaced,
            document: panel.context.localPath,
            kernelId: kernel.id,
            rendermime: panel.content.rendermime,
            trans
          });
          const widget = new MainAreaWidget({ content });
          widget.title.label = trans.__('Output without a cell');
          widget.title.closable = true;
          app.shell.add(widget, 'main', { ref: panel.id, mode: 'split-bottom' });
        }
      }
    ]
  });
}
