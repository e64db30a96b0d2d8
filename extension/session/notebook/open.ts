/** One notebook: document, panel, and the same settings as in JupyterLab. */
import { CodeCell } from '@jupyterlab/cells';
import { Context } from '@jupyterlab/docregistry';
import {
  type INotebookModel,
  NotebookModelFactory,
  NotebookPanel,
  NotebookWidgetFactory,
  runCell,
  setCellExecutor,
  StaticNotebook
} from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime';
import type { ServiceManager } from '@jupyterlab/services';
import { ignoreKernelDetails, watchChoice } from '../../src/panel/kernel-details.js';
import type { Managers } from './managers.js';
import { keepCharactersWhole } from '../../src/reattach/whole-characters.js';
import { ButtonsContentFactory } from './cell-buttons.js';
import { editorFactory, mimeTypes } from './editors.js';
import { leaveOutFarInputs } from './far-inputs.js';
import { pageRendermime } from './rendering.js';
import { scrollInView } from './scrolling.js';

keepCharactersWhole();

setCellExecutor(
  Object.freeze({
    /** A cell that is run while the page still connects waits for its kernel; JupyterLab's own executor would drop it. */
    runCell: async (options: Parameters<typeof runCell>[0]): Promise<boolean> => {
      const { cell, sessionContext } = options;
      if (cell instanceof CodeCell && sessionContext && !sessionContext.isReady) {
        cell.model.executionState = 'running';
        await sessionContext.ready;
      }
      if (cell instanceof CodeCell && sessionContext && !sessionContext.session?.kernel) {
        await sessionContext.startKernel();
        if (!sessionContext.session?.kernel) {
          // Lab's own executor would clear the outputs of the cell.
          cell.model.executionState = 'idle';
          return false;
        }
      }
      return runCell(options);
    }
  })
);

export interface OpenNotebook {
  readonly context: Context<INotebookModel>;
  readonly panel: NotebookPanel;
}

export interface OpenOptions {
  readonly path: string;
  readonly managers: Managers;
  readonly isReadOnly: boolean;
  readonly links: IRenderMime.ILinkHandler;
}

/** The document is loaded when `context.ready` resolves; the panel can be shown earlier. */
export function openNotebook({ path, managers, isReadOnly, links }: OpenOptions): OpenNotebook {
  const context = new Context<INotebookModel>({
    manager: managers as unknown as ServiceManager.IManager,
    factory: new NotebookModelFactory(),
    path,
    kernelPreference: {
      shouldStart: !isReadOnly,
      canStart: !isReadOnly,
      autoStartDefault: !isReadOnly,
      // A kernel belongs to the notebook, not to the page that shows it.
      shutdownOnDispose: false
    }
  });
  const factory = new NotebookWidgetFactory({
    name: 'Notebook',
    modelName: 'notebook',
    fileTypes: ['notebook'],
    rendermime: pageRendermime(links),
    contentFactory: new (isReadOnly ? NotebookPanel.ContentFactory : ButtonsContentFactory)({
      editorFactory: options => editorFactory.newInlineEditor(options)
    }),
    mimeTypeService: mimeTypes,
    notebookConfig: {
      ...StaticNotebook.defaultNotebookConfig,
      // Until the length of the notebook is known.
      windowingMode: 'defer',
      showInputPlaceholder: true,
      scrollPastEnd: true
    },
    editorConfig: {
      ...StaticNotebook.defaultEditorConfig,
      code: { ...StaticNotebook.defaultEditorConfig.code, lineNumbers: true }
    }
  });
  const panel = factory.createNew(context);
  scrollInView(panel.content);
  leaveOutFarInputs(panel);
  ignoreKernelDetails(context.model, watchChoice(context.sessionContext), true);
  context.model.readOnly = isReadOnly;
  return { context, panel };
}
