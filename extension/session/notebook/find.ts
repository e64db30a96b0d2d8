/** Find in the notebook: JupyterLab's search over all cells, rendered or not. Loaded when it is opened. */
import { NotebookSearchProvider } from '@jupyterlab/notebook';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { nullTranslator } from '@jupyterlab/translation';
import { SearchDocumentModel, SearchDocumentView } from '@jupyterlab/documentsearch';
import { Widget } from '@lumino/widgets';
import '@jupyterlab/documentsearch/style/index.js';

/** Pause between two typed letters of the search text. */
const PAUSE_MS = 250;

let open: SearchDocumentView | null = null;

export function find(panel: NotebookPanel): void {
  if (open === null) {
    const provider = new NotebookSearchProvider(panel, nullTranslator);
    const model = new SearchDocumentModel(provider, PAUSE_MS);
    const view = new SearchDocumentView(model, nullTranslator);
    view.addClass('jp-DocumentSearch-overlay-page');
    view.closed.connect(() => {
      Widget.detach(view);
      void model.endQuery();
      view.dispose();
      model.dispose();
      open = null;
      panel.content.activate();
    });
    Widget.attach(view, panel.node);
    open = view;
  }
  const chosen = window.getSelection()?.toString() ?? '';
  if (chosen !== '' && !chosen.includes('\n')) open.setSearchText(chosen);
  open.focusSearchInput();
}
