/** The table of contents: the headings of a notebook with the run time of the cells below each. */
import type { ICellModel } from '@jupyterlab/cells';
import type { CellList, NotebookPanel } from '@jupyterlab/notebook';
import { type ISignal, Signal } from '@lumino/signaling';
import type { Timing } from './timing.js';

interface Heading {
  readonly text: string;
  /** From 1. */
  readonly level: number;
  readonly cell: number;
  readonly state: 'running' | 'queued' | 'failed' | 'done' | null;
  /** Run time of the cells below it, milliseconds; null: none has run. */
  readonly ms: number | null;
}

/** A code block may have lines that look like a heading. */
const FENCE = /^\s*(```|~~~)/;
const HEADING = /^(#{1,6})\s+(.+?)\s*#*\s*$/;

export function headingsOf(panel: NotebookPanel, timing: Timing): readonly Heading[] {
  const found: { text: string; level: number; cell: number }[] = [];
  const cells = panel.content.model?.cells;
  const count = cells?.length ?? 0;
  for (let cell = 0; cell < count; cell += 1) {
    const model = cells?.get(cell);
    if (model?.type === 'markdown') {
      found.push(...inMarkdown(model.sharedModel.getSource()).map(heading => ({ ...heading, cell })));
    }
  }
  return found.map((heading, at) => {
    const end = found[at + 1]?.cell ?? count;
    const times = Array.from({ length: Math.max(0, end - heading.cell) }, (_, offset) =>
      timing.of(cells?.get(heading.cell + offset).id ?? '')
    ).filter(time => time !== null);
    const done = times.filter(time => time.kind === 'done');
    const state = (['running', 'queued'] as const).find(kind => times.some(time => time.kind === kind));
    return {
      ...heading,
      state: state ?? (done.some(({ failed }) => failed) ? 'failed' : done.length > 0 ? 'done' : null),
      ms: done.length === 0 ? null : done.reduce((sum, { ms }) => sum + ms, 0)
    };
  });
}

/** Emits when a text cell or the list of cells changes. A model's `contentChanged` also reports outputs, and so each frame of a flood. */
export function textChanges(cells: CellList): ISignal<unknown, void> {
  const changed = new Signal<unknown, void>(cells);
  const emit = (): void => changed.emit();
  const watch = (cell: ICellModel): void => {
    if (cell.type === 'markdown') cell.contentChanged.connect(emit);
  };
  for (const cell of cells) watch(cell);
  cells.changed.connect((_, { newValues }) => {
    newValues.forEach(watch);
    emit();
  });
  return changed;
}

export function inMarkdown(source: string): { text: string; level: number }[] {
  let isCode = false;
  return source.split('\n').flatMap(line => {
    if (FENCE.test(line)) isCode = !isCode;
    const [, marks, text] = isCode ? [] : (HEADING.exec(line) ?? []);
    return marks !== undefined && text !== undefined
      ? [{ level: marks.length, text: text.replace(/[*_`]|\[([^\]]*)\]\([^)]*\)/g, '$1') }]
      : [];
  });
}

export async function goToHeading(panel: NotebookPanel, cell: number): Promise<void> {
  const { content } = panel;
  content.activeCellIndex = cell;
  content.deselectAll();
  await content.scrollToItem(cell, 'start');
  content.activate();
}
