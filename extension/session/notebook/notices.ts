/** The page's notices above the notebook, newest last, one line per subject. */
import { Signal } from '@lumino/signaling';

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
  readonly changed = new Signal<this, void>(this);

  show(notice: Notice): void {
    this._all.set(notice.id, notice);
    this.changed.emit();
  }

  clear(id: string): void {
    if (this._all.delete(id)) this.changed.emit();
  }

  private readonly _all = new Map<string, Notice>();
}
