/** Shows costs at the lines of a notebook: a quiet note that disappears when its line changes. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ICodeCellModel } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator } from '@jupyterlab/translation';
import { EditorView } from '@codemirror/view';
import { Throttler } from '@lumino/polling';
import { IBridgeEvents } from '../events/tokens.js';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import { ICurrentKernel } from '../tokens.js';
import { findCell } from './go-to-cell.js';
import { type LineNote, lineNotes } from './line-notes.js';
import { noteMarks, showNotes } from './note-marks.js';
import { settingsFrom } from './settings.js';
import { translateWith } from '../text/trans.js';

const SETTINGS = '@tpulab/labextension:panel';
/** Notes are queried, because no signal reports their changes. */
const INTERVAL_MS = 1_000;

export const lineNotesPlugin: JupyterFrontEndPlugin<void> = {
  id: '@tpulab/labextension:line-notes',
  description: 'Inline annotations: the idle time that a line causes, and how often it was compiled.',
  autoStart: true,
  requires: [INotebookTracker, ICurrentKernel, IBridgeEvents],
  optional: [ISettingRegistry, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    notebooks: INotebookTracker,
    currentKernel: ICurrentKernel,
    events: IBridgeEvents,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ): void => {
    translateWith(translator);
    const marked = new MarkedEditors(notebooks);
    let settings = settingsFrom({});
    let followed: KernelTelemetry | null = null;
    const draw = (): void => {
      marked.show(followed && settings.lineNotes ? lineNotes(followed, settings.stepsShown) : []);
    };
    const throttler = new Throttler(draw, INTERVAL_MS);
    const later = (): void => void throttler.invoke();
    const follow = (): void => {
      const { current } = currentKernel;
      const next = current.kind === 'bridge' ? events.telemetryOf(current.kernelId) : null;
      if (next !== followed) {
        followed?.changed.disconnect(later);
        next?.changed.connect(later);
        followed = next;
        draw();
      }
    };
    currentKernel.changed.connect(follow);
    follow();
    registry?.load(SETTINGS).then(
      loaded => {
        const apply = ({ composite }: ISettingRegistry.ISettings): void => {
          settings = settingsFrom(composite);
          draw();
        };
        apply(loaded);
        loaded.changed.connect(apply);
      },
      // Without valid settings, the defaults apply.
      () => undefined
    );
  }
};

class MarkedEditors {
  constructor(private readonly _notebooks: INotebookTracker) {}

  /** Notes of cells that are not open, or were changed since they ran, are omitted. */
  show(notes: readonly LineNote[]): void {
    const byCell = new Map<EditorView, LineNote[]>();
    for (const note of notes) {
      const view = this._removedAt(note) >= note.at ? null : this._viewOf(note.cellId);
      if (view) {
        byCell.set(view, [...(byCell.get(view) ?? []), note]);
      }
    }
    for (const view of this._views) {
      if (view.dom.isConnected || byCell.has(view)) {
        showNotes(
          view,
          (byCell.get(view) ?? []).sort((a, b) => a.line - b.line)
        );
      } else {
        this._views.delete(view);
      }
    }
  }

  private _removedAt({ cellId, line }: LineNote): number {
    return this._removed.get(`${cellId} ${line}`) ?? 0;
  }

  private _viewOf(cellId: string): EditorView | null {
    const found = findCell(this._notebooks, cellId);
    const cell = found?.panel.content.widgets[found.index];
    // The line numbers refer to the executed code.
    if (!cell?.editor || (cell.model as Partial<ICodeCellModel>).isDirty === true) {
      return null;
    }
    const view = EditorView.findFromDOM(cell.editor.host);
    if (view && !this._views.has(view)) {
      cell.editor.injectExtension(noteMarks(({ line, at }) => this._removed.set(`${cellId} ${line}`, at)));
      this._views.add(view);
    }
    return view;
  }

  private readonly _views = new Set<EditorView>();
  /** By cell and line, the time of the note that was removed with a change. */
  private readonly _removed = new Map<string, number>();
}
