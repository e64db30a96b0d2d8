// @vitest-environment jsdom
import { EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { LineNote } from './line-notes.js';
import { noteMarks, showNotes } from './note-marks.js';

const note = (line: number, text: string): LineNote => ({ cellId: 'c', line, text, at: 1 });

let removed: string[];
let view: EditorView;

beforeEach(() => {
  removed = [];
  const state = EditorState.create({
    doc: 'a = 1\nb = 2\nc = 3',
    extensions: noteMarks(({ text }) => removed.push(text))
  });
  view = new EditorView({ state, parent: document.body });
});
afterEach(() => view.destroy());

const lines = (): string[] => [...view.dom.querySelectorAll('.cm-line')].map(line => line.textContent);

it('stands at the end of its line, and is not part of the text', () => {
  showNotes(view, [note(2, 'compiled 2×'), note(9, 'beyond the end')]);
  expect(lines()).toEqual(['a = 1', 'b = 2compiled 2×', 'c = 3']);
  expect(view.state.doc.toString()).toBe('a = 1\nb = 2\nc = 3');
  showNotes(view, []);
  expect(lines()[1]).toBe('b = 2');
  expect(removed).toEqual([]);
});

it('moves with its line, and disappears when the line changes', () => {
  showNotes(view, [note(2, 'compiled 2×'), note(3, 'idle')]);
  view.dispatch({ changes: { from: 0, insert: '# first\n' } });
  expect(lines()).toEqual(['# first', 'a = 1', 'b = 2compiled 2×', 'c = 3idle']);
  const at = view.state.doc.line(3).from;
  view.dispatch({ changes: { from: at, to: at + 1, insert: 'd' } });
  expect(lines()).toEqual(['# first', 'a = 1', 'd = 2', 'c = 3idle']);
  expect(removed).toEqual(['compiled 2×']);
});
