/** Reattaches JupyterLab's notebooks to the executions of their kernels on a bridge while no page was open. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { MainAreaWidget, Notification } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ITranslator } from '@jupyterlab/translation';
import { IBridgeBackends } from '../backends/tokens.js';
import { IBridgeEvents } from '../events/tokens.js';
import { floodFactory, printedTextFactory } from './flood-output.js';
import { followNotebook, type IFollowParts } from './follow-notebook.js';
import { keepCharactersWhole, keepLineEndsWhole, saveWellFormed } from './whole-characters.js';
import { download } from '../platform/download.js';
import { NoticePlace } from '../ui/notebook-notice.js';
import type { IOutput } from '@jupyterlab/nbformat';
import { OutputArea, OutputAreaModel } from '@jupyterlab/outputarea';
import { Panel, Widget } from '@lumino/widgets';
import type { IUnplaced } from './reattachment.js';
import { hasScriptable } from './trust.js';
import { trans, translateWith } from '../text/trans.js';

export const reattachPlugin: JupyterFrontEndPlugin<void> = {
  id: '@tpulab/labextension:reattach',
  description: 'Places outputs made while no page was open, and keeps running cells going after a reload.',
  autoStart: true,
  requires: [IBridgeBackends, INotebookTracker],
  optional: [IBridgeEvents, IRenderMimeRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    backends: IBridgeBackends,
    notebooks: INotebookTracker,
    events: IBridgeEvents | null,
    rendermime: IRenderMimeRegistry | null,
    translator: ITranslator | null
  ): void => {
    translateWith(translator);
    keepCharactersWhole();
    keepLineEndsWhole();
    rendermime?.addFactory(printedTextFactory);
    rendermime?.addFactory(floodFactory(id => backends.backendOf(id)?.serverSettings ?? null));
    const parts: IFollowParts = {
      backends,
      events,
      actions: NotebookActions,
      trust: ({ content }) => NotebookActions.trust(content),
      showUnplaced: (panel, message, shown) =>
        void Notification.warning(message, {
          autoClose: false,
          actions: [
            {
              label: trans.__('Show the output'),
              callback: () => {
                const { rendermime } = panel.content;
                const document = panel.context.localPath;
                const content = new UnplacedOutputs({ ...shown, document, rendermime });
                const widget = new MainAreaWidget({ content });
                widget.title.label = trans.__('Output without a cell');
                widget.title.closable = true;
                app.shell.add(widget, 'main', { ref: panel.id, mode: 'split-bottom' });
              }
            }
          ]
        })
    };
    // A second view of a notebook shows the same model, so one of them is enough.
    const followed = new WeakSet<object>();
    notebooks.widgetAdded.connect((_, panel) => {
      if (!followed.has(panel.context)) {
        followed.add(panel.context);
        saveWellFormed(panel);
        offerCopies(panel, () => void app.commands.execute('docmanager:save-as'));
        followNotebook(panel, parts);
      }
    });
  }
};

/**
 * A notice above a notebook that JupyterLab could not save: the reason, and a way to save its content. JupyterLab's own Download has
 * the file on disk, and its own dialog offers no other action.
 */
function offerCopies(panel: NotebookPanel, saveAs: () => void): void {
  const { context } = panel;
  const notice = new NoticePlace(panel.contentHeader);
  let isSaving = false;
  let why = '';
  const dialogs = context as { readonly _handleError?: (error: Error, title: string) => Promise<void> };
  const show = dialogs._handleError;
  if (show !== undefined) {
    const _handleError: typeof show = async (error, title) => {
      if (isSaving) why = error.message.replace(/[^.?!]$/, '$&.');
      else await show.call(context, error, title);
    };
    Object.assign(context, { _handleError });
  }
  context.saveState.connect((_, state) => {
    isSaving = state === 'started';
    if (state === 'completed') notice.clear();
    if (state !== 'failed') return;
    const name = context.localPath;
    const stored = trans.__('All cells and outputs are still in this page.');
    notice.show({
      text: [trans.__('%1 is not saved.', name), why, stored].join(' '),
      actions: [
        { label: trans.__('Save elsewhere…'), stays: true, onClick: saveAs },
        {
          label: trans.__('Download'),
          stays: true,
          onClick: () => download(name, JSON.stringify(context.model.toJSON(), null, 1))
        }
      ]
    });
  });
}

interface IUnplacedOptions {
  readonly unplaced: readonly IUnplaced[];
  readonly document: string;
  /** The terminal command that shows them. */
  readonly command: string;
  readonly rendermime: IRenderMimeRegistry;
}

class UnplacedOutputs extends Panel {
  constructor({ unplaced, document, command, rendermime }: IUnplacedOptions) {
    super();
    this.addClass('jp-TPULabUnplaced');
    this.addWidget(
      text(
        'p',
        trans.__(
          'These outputs of "%1" are not in the notebook. They stay in the journal of the kernel: %2',
          document,
          command
        )
      )
    );
    for (const { execution, why, isTrusted } of unplaced) {
      const count = execution.executionCount ?? '*';
      const title =
        why === 'changed'
          ? trans.__('[%1] The cell was edited since', count)
          : why === 'ambiguous'
            ? trans.__('[%1] Several cells have this code, and the file keeps no cell ids', count)
            : trans.__('[%1] The cell is not in the notebook', count);
      this.addWidget(text('h3', title));
      const values = execution.outputs.map(({ output }) => output as IOutput);
      const model = new OutputAreaModel({ values, trusted: isTrusted });
      const area = new OutputArea({ model, rendermime });
      area.disposed.connect(() => model.dispose());
      if (!isTrusted && hasScriptable(execution)) this.addWidget(untrustedNotice(model));
      this.addWidget(area);
    }
  }
}

/** Reports that an output is shown without its scripts, until the button is pressed. */
function untrustedNotice(model: OutputAreaModel): Widget {
  const note = text('p', trans.__('Not requested from this computer, so shown without scripts.'));
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'jp-TPULabButton';
  button.textContent = trans.__('Trust this output');
  button.addEventListener('click', () => {
    model.trusted = true;
    note.dispose();
  });
  note.node.append(' ', button);
  return note;
}

function text(tag: 'p' | 'h3', content: string): Widget {
  const node = document.createElement(tag);
  node.textContent = content;
  return new Widget({ node });
}
