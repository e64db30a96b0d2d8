/** One notebook: document, panel, and the same settings as in JupyterLab. */
import { CodeCell } from '@jupyterlab/cells';
import { Context } from '@jupyterlab/docregistry';
import {
  type INotebookModel,
  type Notebook,
  NotebookModelFactory,
  NotebookPanel,
  NotebookWidgetFactory,
  runCell,
  setCellExecutor,
  StaticNotebook
} from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime';
import type { ServiceManager } from '@jupyterlab/services';
import type { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { ignoreKernelDetails, watchChoice } from '../../src/panel/kernel-details.js';
import type { Managers } from './managers.js';
import { keepCharactersWhole, keepLineEndsWhole } from '../../src/reattach/whole-characters.js';
import { ButtonsContentFactory } from './cell-buttons.js';
import { editorFactory, mimeTypes } from './editors.js';
import { hideOffscreenInputs } from './offscreen-inputs.js';
import { pageRendermime } from './rendering.js';

keepCharactersWhole();
keepLineEndsWhole();

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

interface OpenOptions {
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
  hideOffscreenInputs(panel);
  ignoreKernelDetails(context.model, watchChoice(context.sessionContext), true);
  context.model.readOnly = isReadOnly;
  return { context, panel };
}

/**
 * Limits scroll handling to visible editors. CodeMirror makes each editor listen to the notebook's scroller, and each reads its own
 * scroll position at each event: in a notebook of 1,000 cells this forces 1,000 layouts of cells that the browser would skip.
 */
function scrollInView(notebook: Notebook): void {
  const { outerNode } = notebook;
  const onScroll = (event: Event): void => {
    if (event.target !== outerNode) return;
    // Registered before the listeners of the editors on this node. JupyterLab's own listener is among them.
    event.stopImmediatePropagation();
    notebook.handleEvent(event);
    for (const { editor } of notebook.widgets) {
      const view = (editor as CodeMirrorEditor | null)?.editor;
      if (view?.inView && view.viewport.to - view.viewport.from < view.state.doc.length) {
        // The editor listens here too, and no other editor does.
        view.scrollDOM.dispatchEvent(new Event('scroll'));
      }
    }
  };
  outerNode.addEventListener('scroll', onScroll, { capture: true, passive: true });
  outerNode.addEventListener('keydown', navigateImmediately);
}

/**
 * Jumps to the beginning or the end immediately. Chromium animates this over half a second and overrides scripts meanwhile:
 * a jump to a heading or a cell right after the key would be undone.
 */
function navigateImmediately(event: KeyboardEvent): void {
  const { key, currentTarget, target } = event;
  const isInCells = target === currentTarget || (target as Element).matches('.jp-Cell, .jp-Notebook');
  if ((key !== 'Home' && key !== 'End') || !isInCells || event.defaultPrevented) return;
  event.preventDefault();
  const scroller = currentTarget as Element;
  scroller.scrollTop = key === 'Home' ? 0 : scroller.scrollHeight;
}
