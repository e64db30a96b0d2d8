/**
 * Limits scroll handling to visible editors. CodeMirror makes each editor listen to the notebook's scroller, and each reads its own
 * scroll position at each event: in a notebook of 1,000 cells this forces 1,000 layouts of cells that the browser would skip.
 */
import type { CodeMirrorEditor } from '@jupyterlab/codemirror';
import type { Notebook } from '@jupyterlab/notebook';

export function scrollInView(notebook: Notebook): void {
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
  outerNode.addEventListener('keydown', goAtOnce);
}

/**
 * Jumps to the beginning or the end immediately. Chromium animates this over half a second and overrides scripts meanwhile:
 * a jump to a heading or a cell right after the key would be undone.
 */
function goAtOnce(event: KeyboardEvent): void {
  const { key, currentTarget, target } = event;
  const isOfCells = target === currentTarget || (target as Element).matches('.jp-Cell, .jp-Notebook');
  if ((key !== 'Home' && key !== 'End') || !isOfCells || event.defaultPrevented) return;
  event.preventDefault();
  const scroller = currentTarget as Element;
  scroller.scrollTop = key === 'Home' ? 0 : scroller.scrollHeight;
}
