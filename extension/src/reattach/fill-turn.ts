/**
 * Decides which user's page fills the cells of a shared notebook: an output written into one page's cells appears in all of them, so two
 * filling pages would show everything twice. The pages see each other in the awareness of the document. The first claimant has
 * the task; after it has left, the remaining page with the lowest client id has it.
 */
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { wait } from '../platform/wait.js';
import { whenever } from '../platform/wait.js';

/** How long a shared document may take to report who else has it open, and two pages to see each other's claim. */
const PEERS_WAIT_MS = 1_000;
const CLAIM_WAIT_MS = 500;

/** The used part of y-protocols' `Awareness`. */
interface IAwareness {
  readonly clientID: number;
  getStates(): ReadonlyMap<number, unknown>;
  setLocalStateField(name: string, value: unknown): void;
  on(event: 'change', handler: () => void): void;
  off(event: 'change', handler: () => void): void;
}

type Part = 'filling' | 'waiting';

export class FillTurn implements IDisposable {
  /** @param what the kernel whose outputs are filled in */
  constructor(
    private readonly awareness: IAwareness,
    what: string
  ) {
    this.field = `tpulab fills ${what}`;
    this.announce('waiting');
    awareness.on('change', this.check);
    this.check();
  }

  /** Whether this page fills the cells. */
  get isMine(): boolean {
    return this._isMine;
  }

  /** Emitted when `isMine` changes. */
  readonly changed = new Signal<this, void>(this);

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) return;
    this._isDisposed = true;
    this.awareness.off('change', this.check);
    this.announce(null);
    Signal.clearData(this);
  }

  private readonly check = (): void => {
    const fills = this.others('filling');
    // Two simultaneous claimants see each other here: one of them steps back.
    const candidates = this._isMine || fills.length > 0 ? fills : this.others('waiting');
    const isFirst = candidates.every(id => id > this.awareness.clientID);
    const isMine = this._isMine ? isFirst : fills.length === 0 && isFirst;
    if (isMine !== this._isMine) {
      this._isMine = isMine;
      this.announce(isMine ? 'filling' : 'waiting');
      this.changed.emit();
    }
  };

  private announce(part: Part | null): void {
    this.awareness.setLocalStateField(this.field, part);
  }

  private others(part: Part): number[] {
    return [...this.awareness.getStates()].flatMap(([id, state]) =>
      id !== this.awareness.clientID && (state as Record<string, unknown>)[this.field] === part ? [id] : []
    );
  }

  private readonly field: string;
  private _isMine = false;
  private _isDisposed = false;
}

/**
 * Resolves once it is this page's turn to fill, or at the end. Its claim lasts until then. Other pages are reported a moment after the
 * document: a page that has the task must not be overlooked, nor a simultaneous claim.
 */
export async function waitForTurn(awareness: IAwareness, what: string, signal: AbortSignal): Promise<void> {
  const isOver = (): boolean => signal.aborted;
  await wait(PEERS_WAIT_MS, signal);
  if (isOver()) return;
  const turn = new FillTurn(awareness, what);
  signal.addEventListener('abort', () => turn.dispose(), { once: true });
  do {
    await whenever([turn.changed], () => turn.isMine, signal).catch(() => undefined);
    await wait(CLAIM_WAIT_MS, signal);
  } while (!turn.isMine && !isOver());
}
