/** One notebook: document, panel, and the settings that JupyterLab gives it. */
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
import type { ServiceManager } from '@jupyterlab/services';
import { ignoreKernelDetails } from '../../src/panel/kernel-details.js';
import type { Managers } from '../runtime/managers.js';
import { editorFactory, mimeTypes } from './editors.js';
import { pageRendermime } from './rendering.js';

/**
 * Of a notebook with more cells, only those near the visible ones are in the page: each editor that is there is asked at each turn of the
 * wheel, and each cell is observed. Of a shorter one all stay, so that what an output shows (a map, a widget) is not made again
 * when it comes back into view.
 */
const LONG_CELLS = 100;

setCellExecutor(
  Object.freeze({
    /** A cell that is run while the page still connects waits for its kernel; JupyterLab's own executor would drop it. */
    runCell: async (options: Parameters<typeof runCell>[0]): Promise<boolean> => {
      const { cell, sessionContext } = options;
      if (cell instanceof CodeCell && sessionContext && !sessionContext.isReady) {
        cell.model.executionState = 'running';
        await sessionContext.ready;
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
  /** Of JupyterLab's settings: the kernel with which a notebook begins that names none. */
  readonly kernel?: { readonly name?: string };
}

/** The document is loaded when `context.ready` resolves; the panel can be shown before. */
export function openNotebook({ path, managers, isReadOnly, kernel }: OpenOptions): OpenNotebook {
  const context = new Context<INotebookModel>({
    manager: managers as unknown as ServiceManager.IManager,
    factory: new NotebookModelFactory(),
    path,
    kernelPreference: {
      shouldStart: !isReadOnly,
      canStart: !isReadOnly,
      autoStartDefault: !isReadOnly,
      // A kernel belongs to the notebook, not to the page that shows it.
      shutdownOnDispose: false,
      ...kernel
    }
  });
  const factory = new NotebookWidgetFactory({
    name: 'Notebook',
    modelName: 'notebook',
    fileTypes: ['notebook'],
    rendermime: pageRendermime(),
    contentFactory: new NotebookPanel.ContentFactory({
      editorFactory: options => editorFactory.newInlineEditor(options)
    }),
    mimeTypeService: mimeTypes,
    notebookConfig: {
      ...StaticNotebook.defaultNotebookConfig,
      windowingMode: 'full',
      showInputPlaceholder: true,
      scrollPastEnd: true
    },
    editorConfig: {
      ...StaticNotebook.defaultEditorConfig,
      code: { ...StaticNotebook.defaultEditorConfig.code, lineNumbers: true }
    }
  });
  const panel = factory.createNew(context);
  keepShortWhole(panel);
  ignoreKernelDetails(context.model, true);
  context.model.readOnly = isReadOnly;
  return { context, panel };
}

/** While the notebook is loaded, before any of its cells is attached: one that was attached and taken away again would be lost. */
function keepShortWhole({ content, context }: NotebookPanel): void {
  const { cells } = context.model;
  const choose = (): void => {
    const windowingMode = cells.length > LONG_CELLS ? 'full' : 'contentVisibility';
    if (content.notebookConfig.windowingMode !== windowingMode) {
      content.notebookConfig = { ...content.notebookConfig, windowingMode };
    }
  };
  cells.changed.connect(choose);
  const stop = (): boolean => cells.changed.disconnect(choose);
  context.ready.then(stop, stop);
}
