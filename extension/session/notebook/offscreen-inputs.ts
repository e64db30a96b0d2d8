/**
 * In a long notebook, inputs far from the visible part are not drawn: each keeps an empty place at its last or its expected height.
 * All cells stay in the page, so that jumps, search and the browser's scroll anchoring work as in a short notebook, and outputs stay
 * unchanged. JupyterLab's windowing removes the cells themselves and has to guess the position of each.
 */
import type { Cell } from '@jupyterlab/cells';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';

/** Below this number, drawing all of them costs less than a frame. */
const LONG_CELLS = 100;
/** Drawn immediately: the visible cells of a newly opened notebook. */
const FIRST_CELLS = 40;
/** Above and below the visible part; larger than the movement of a wheel turn within two frames. */
const MARGIN_PX = 600;
const OFFSCREEN_CLASS = 'tpl-mod-offscreen';
/** Sizes of an editor: a line, the padding around its lines, and the minimum height of an input. */
const LINE_PX = 18.2;
const PADDING_PX = 10;
const MIN_PX = 29;

export function hideOffscreenInputs({ content, context }: NotebookPanel): void {
  chooseMode(content, context);
  const seen = new Set<Element>();
  let active: Element | null = null;
  const near = new WeakSet<Element>();
  const observer = new IntersectionObserver(
    entries => {
      const left: Element[] = [];
      for (const { target, isIntersecting, boundingClientRect } of entries) {
        near[isIntersecting ? 'add' : 'delete'](target);
        if (isIntersecting || target === active) {
          show(target);
        } else if (boundingClientRect.height > 0 && !isOffscreen(target)) {
          left.push(target);
        }
      }
      // All are measured before one is changed: otherwise each change would force a new layout.
      const heights = left.map(heightOf);
      left.forEach((target, at) => hide(target, heights[at] ?? 0));
    },
    { root: content.outerNode, rootMargin: `${MARGIN_PX}px 0px` }
  );
  const onAttached = (_: Notebook, cell: Cell): void => {
    const { node } = cell;
    if (seen.has(node) || content.notebookConfig.windowingMode !== 'defer') return;
    seen.add(node);
    cell.disposed.connect(() => {
      observer.unobserve(node);
      seen.delete(node);
    });
    if (seen.size > FIRST_CELLS && cell !== content.activeCell) hide(node, expectedPx(cell));
    observer.observe(node);
  };
  const showNear = (cell: Element): void => {
    for (const node of around(cell, content.outerNode.clientHeight).filter(isOffscreen)) {
      show(node);
      // Observed again at its present position: it may still be far.
      observer.unobserve(node);
      observer.observe(node);
    }
  };
  // Draws the target of a link to a heading before the link is followed.
  const onClick = ({ target }: MouseEvent): void => {
    const link = target instanceof Element ? target.closest<HTMLAnchorElement>('a[href^="#"]') : null;
    const id = link === null ? '' : CSS.escape(link.hash.slice(1));
    const cell = content.node.querySelector(`[data-jupyter-id="${id}"]`)?.closest('.jp-Cell');
    if (cell) showNear(cell);
  };
  content.node.addEventListener('click', onClick, { capture: true });
  content.cellInViewportChanged.connect(onAttached);
  content.activeCellChanged.connect((_, cell) => {
    const before = active;
    active = cell?.node ?? null;
    // Drawn immediately with its neighbours: it is about to get the focus, and the page scrolls to its position, which must be exact.
    if (active !== null) showNear(active);
    if (before !== null && before !== active && seen.has(before) && !near.has(before)) {
      const heightPx = heightOf(before);
      // A cell below a folded heading has no height.
      if (heightPx > 0) hide(before, heightPx);
    }
  });
  content.disposed.connect(() => observer.disconnect());
}

/** Called once the length of the notebook is known, before its first cell is drawn. */
function chooseMode(content: Notebook, context: NotebookPanel['context']): void {
  const { cells } = context.model;
  const choose = (): void => {
    const windowingMode = cells.length > LONG_CELLS ? 'defer' : 'contentVisibility';
    if (content.notebookConfig.windowingMode !== windowingMode) {
      content.notebookConfig = { ...content.notebookConfig, windowingMode };
    }
  };
  cells.changed.connect(choose);
  const stop = (): boolean => cells.changed.disconnect(choose);
  context.ready.then(stop, stop);
}

function expectedPx({ model }: Cell): number {
  return Math.max(MIN_PX, PADDING_PX + LINE_PX * model.sharedModel.getSource().split('\n').length);
}

/** A cell, and its neighbours within `distancePx`. */
function around(cell: Element, distancePx: number): readonly Element[] {
  const found = [cell];
  for (const next of ['previousElementSibling', 'nextElementSibling'] as const) {
    let leftPx = distancePx;
    for (let at = cell[next]; at !== null && leftPx > 0; at = at[next]) {
      leftPx -= at.getBoundingClientRect().height;
      found.push(at);
    }
  }
  return found;
}

const isOffscreen = (cell: Element): boolean => cell.classList.contains(OFFSCREEN_CLASS);

function show(cell: Element): void {
  cell.classList.remove(OFFSCREEN_CLASS);
}

function hide(cell: Element, heightPx: number): void {
  if (!isOffscreen(cell)) {
    inputOf(cell)?.style.setProperty('--tpl-far-height', `${heightPx}px`);
    cell.classList.add(OFFSCREEN_CLASS);
  }
}

function heightOf(cell: Element): number {
  return inputOf(cell)?.getBoundingClientRect().height ?? 0;
}

function inputOf(cell: Element): HTMLElement | null {
  return cell.querySelector(':scope > .jp-Cell-inputWrapper');
}
