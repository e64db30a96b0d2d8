/**
 * Scrolling asks only the editors that are in view. CodeMirror has each of them listen to the notebook's scroller, and each reads its own
 * scroll position at each event: in a notebook of 1,000 cells that is 1,000 layouts, of cells that the browser leaves out of its own.
 */
import type { CodeMirrorEditor } from '@jupyterlab/codemirror';
import type { Notebook } from '@jupyterlab/notebook';

export function scrollInView(notebook: Notebook): void {
  const { outerNode } = notebook;
  const onScroll = (event: Event): void => {
    if (event.target !== outerNode) return;
    // Before the listeners of the editors, which are those of this node. JupyterLab's own is among them.
    event.stopImmediatePropagation();
    notebook.handleEvent(event);
    for (const { editor } of notebook.widgets) {
      const view = (editor as CodeMirrorEditor | null)?.editor;
      if (view?.inView && view.viewport.to - view.viewport.from < view.state.doc.length) {
        // It listens there too, and no other editor does.
        view.scrollDOM.dispatchEvent(new Event('scroll'));
      }
    }
  };
  outerNode.addEventListener('scroll', onScroll, { capture: true, passive: true });
  outerNode.addEventListener('keydown', goAtOnce);
}

/**
 * To the beginning or the end at once. Chromium draws its own way there over half a second and ends it whatever a script sets meanwhile:
 * a heading or a cell to which one goes right after the key would be left again.
 */
function goAtOnce(event: KeyboardEvent): void {
  const { key, currentTarget, target } = event;
  const isOfCells = target === currentTarget || (target as Element).matches('.jp-Cell, .jp-Notebook');
  if ((key !== 'Home' && key !== 'End') || !isOfCells || event.defaultPrevented) return;
  event.preventDefault();
  const scroller = currentTarget as Element;
  scroller.scrollTop = key === 'Home' ? 0 : scroller.scrollHeight;
}
