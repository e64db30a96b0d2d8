/** Selects the remote in the status bar. */
import type { Remote } from '@tpulab/protocol';
import { remoteOfPlace } from '../backends/spec-names.js';
import type { ICurrentKernel } from '../tokens.js';
import type { Remotes } from '../backends/remotes-model.js';
import { Changing } from '../platform/changing.js';

export class RemoteStatus extends Changing {
  constructor(
    private readonly remotes: Remotes,
    private readonly currentKernel: ICurrentKernel
  ) {
    super();
    remotes.changed.connect(this.update, this);
    currentKernel.changed.connect(this.update, this);
    this.update();
  }

  /** The remote of the current kernel; else one that is being connected or lost; null when there is nothing to report. */
  get shown(): Remote | null {
    return this._shown;
  }

  private update(): void {
    const { current } = this.currentKernel;
    const ofKernel = current.kind === 'bridge' ? remoteOfPlace(current.backend.id) : null;
    const own = ofKernel === null ? null : this.remotes.get(ofKernel);
    const busy = this.remotes.all.find(({ state }) => state !== 'connected' && state !== 'disconnected');
    const shown = own ?? busy ?? null;
    if (shown !== this._shown) {
      this._shown = shown;
      this.changed.emit();
    }
  }

  private _shown: Remote | null = null;
}
