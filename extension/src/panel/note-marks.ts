/** Notes at the end of lines of an editor. A note disappears when its line changes; notes below move with their lines. */
import { StateEffect, StateField, type Text, type Transaction } from '@codemirror/state';
import { Decoration, type DecorationSet, EditorView, WidgetType } from '@codemirror/view';
import type { LineNote } from './line-notes.js';

class NoteWidget extends WidgetType {
  constructor(readonly note: LineNote) {
    super();
  }

  override eq({ note }: NoteWidget): boolean {
    return note.text === this.note.text && note.line === this.note.line;
  }

  override toDOM(): HTMLElement {
    const node = document.createElement('span');
    node.className = 'jp-TPULabLineNote';
    node.setAttribute('role', 'note');
    node.textContent = this.note.text;
    return node;
  }

  override ignoreEvent(): boolean {
    return false;
  }
}

const setNotes = StateEffect.define<readonly LineNote[]>();

const field = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (notes, transaction) => {
    const wanted = transaction.effects.find(effect => effect.is(setNotes));
    if (wanted) {
      return decorations(wanted.value, transaction.newDoc);
    }
    return transaction.docChanged ? without(notes.map(transaction.changes), transaction) : notes;
  },
  provide: self => EditorView.decorations.from(self)
});

function decorations(notes: readonly LineNote[], text: Text): DecorationSet {
  const marks = notes
    .filter(({ line }) => line >= 1 && line <= text.lines)
    .sort((a, b) => a.line - b.line)
    .map(note => Decoration.widget({ widget: new NoteWidget(note), side: 1 }).range(text.line(note.line).to));
  return Decoration.set(marks);
}

/** The remaining notes after a change has removed the notes of the changed lines. */
function without(notes: DecorationSet, { changes, newDoc }: Transaction): DecorationSet {
  let left = notes;
  changes.iterChangedRanges((_from, _to, from, to) => {
    const [first, last] = [newDoc.lineAt(from).from, newDoc.lineAt(to).to];
    left = left.update({ filterFrom: first, filterTo: last, filter: () => false });
  });
  return left;
}

/** @param onRemoved receives the notes whose lines were changed */
export function noteMarks(onRemoved: (note: LineNote) => void): [typeof field, ReturnType<typeof listener>] {
  return [field, listener(onRemoved)];
}

function listener(onRemoved: (note: LineNote) => void): ReturnType<typeof EditorView.updateListener.of> {
  return EditorView.updateListener.of(({ docChanged, startState, state, transactions }) => {
    if (docChanged && !transactions.some(({ effects }) => effects.some(effect => effect.is(setNotes)))) {
      const left = notesIn(state.field(field, false));
      notesIn(startState.field(field, false))
        .filter(note => !left.includes(note))
        .forEach(onRemoved);
    }
  });
}

function notesIn(set: DecorationSet | undefined): LineNote[] {
  const found: LineNote[] = [];
  for (const cursor = set?.iter(); cursor?.value;) {
    found.push((cursor.value.spec as { readonly widget: NoteWidget }).widget.note);
    cursor.next();
  }
  return found;
}

/** Shows these notes and no others. */
export function showNotes(view: EditorView, notes: readonly LineNote[]): void {
  const shown = notesIn(view.state.field(field, false));
  const same =
    shown.length === notes.length &&
    shown.every((note, at) => note.line === notes[at]?.line && note.text === notes[at].text);
  if (!same) {
    view.dispatch({ effects: setNotes.of(notes) });
  }
}
