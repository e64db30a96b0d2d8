/** The page's notices above the notebook, newest last, one line per subject. */
import { type ISignal, Signal } from '@lumino/signaling';

export interface Notice {
  readonly id: string;
  readonly tone: 'info' | 'success' | 'warning' | 'error';
  readonly text: string;
  readonly actions: readonly {
    readonly label: string;
    readonly primary?: boolean;
    readonly onClick: () => void;
  }[];
}

export class Notices {
  get all(): readonly Notice[] {
    return [...this._all.values()];
  }
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  show(notice: Notice): void {
    this._all.set(notice.id, notice);
    this._changed.emit();
  }

  clear(id: string): void {
    if (this._all.delete(id)) this._changed.emit();
  }

  private readonly _all = new Map<string, Notice>();
  private readonly _changed = new Signal<this, void>(this);
}
