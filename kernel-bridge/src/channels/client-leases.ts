/**
 * What clients hold in a kernel: subshells that they have created, and the debugger.
 *
 * A lease lasts while its client is attached, and for a time after that: a laptop that sleeps comes back to its
 * subshells, and a debugger whose page is gone must not keep a cell stopped. What is held is written down, so that the next
 * gateway gives it back too; with a new gateway, and with a new socket, the time begins again. A kernel that is started again
 * holds nothing for anybody.
 */
import { readFileSync, rmSync } from 'node:fs';
import { Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { type OnWriteFault, RetriedWrite } from '../platform/retried-write.js';
import { writeForThisBootSync } from '../platform/write-atomically.js';

export interface LeaseTimes {
  /** From the loss of a client's last socket to the deletion of its subshells. */
  readonly subshellMs: number;
  /** From the loss of the debugging client's last socket until its debugger is disconnected. */
  readonly debuggerMs: number;
}

/** Subshells cost a sleeping thread each, so a night and more is cheap; a stopped cell is not. */
export const LEASE_TIMES: LeaseTimes = { subshellMs: 24 * 3_600_000, debuggerMs: 60_000 };

export interface LeaseActions {
  isAttached(session: string): boolean;
  deleteSubshell(id: string): void;
  disconnectDebugger(): void;
  readonly onWriteFault: OnWriteFault;
  /** There is a file, but it cannot be read or understood. */
  onUnreadable(error: Error): void;
}

const LeasesJson = Type.Object({
  kernelSession: Type.String(),
  debugger: Type.Union([Type.String(), Type.Null()]),
  subshells: Type.Record(Type.String(), Type.Array(Type.String()))
});

/** What setTimeout takes; a longer time is waited for in pieces. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export class ClientLeases implements Disposable {
  readonly #write: RetriedWrite;
  /** `header.session` of a client to the ids of its subshells. */
  readonly #subshells = new Map<string, Set<string>>();
  #debugger: string | null = null;
  #kernelSession: string | null = null;
  /** Since when holders are away, by the monotonic clock. */
  readonly #awaySince = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;

  constructor(
    private readonly file: string,
    private readonly times: LeaseTimes,
    private readonly actions: LeaseActions
  ) {
    this.#write = new RetriedWrite(() => this.#save(), actions.onWriteFault);
    this.#load();
  }

  /** `header.session` of the client that debugs. */
  get debugger(): string | null {
    return this.#debugger;
  }

  set debugger(session: string | null) {
    if (session === this.#debugger) return;
    this.#debugger = session;
    this.#changed();
  }

  subshellsOf(session: string): readonly string[] {
    return [...(this.#subshells.get(session) ?? [])];
  }

  subshellCreated(session: string, id: string): void {
    this.#subshells.set(session, (this.#subshells.get(session) ?? new Set()).add(id));
    this.#changed();
  }

  subshellDeleted(id: string): void {
    for (const [session, ids] of this.#subshells) {
      if (ids.delete(id) && ids.size === 0) this.#subshells.delete(session);
    }
    this.#changed();
  }

  /**
   * `header.session` of the kernel. When it is another one than before, all that was held went with the old process, and the
   * answer is true.
   */
  kernelIs(session: string): boolean {
    if (session === this.#kernelSession) return false;
    const isAnother = this.#kernelSession !== null;
    this.#kernelSession = session;
    if (!isAnother) return false;
    this.#debugger = null;
    this.#subshells.clear();
    this.#changed();
    return true;
  }

  /** A client has come or gone. */
  clientsChanged(): void {
    this.#schedule();
  }

  [Symbol.dispose](): void {
    this.#write[Symbol.dispose]();
    this.#stopWaiting();
  }

  #stopWaiting(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #changed(): void {
    this.#write.attempt();
    this.#schedule();
  }

  /** Sees who is away, lets go of what is over, and waits for the next lease to end. */
  #schedule(): void {
    this.#stopWaiting();
    const now = performance.now();
    const holders = new Set(this.#subshells.keys());
    if (this.#debugger !== null) holders.add(this.#debugger);
    for (const session of this.#awaySince.keys()) {
      if (!holders.has(session) || this.actions.isAttached(session)) this.#awaySince.delete(session);
    }
    let next = Infinity;
    for (const session of holders) {
      if (this.actions.isAttached(session)) continue;
      const since = this.#awaySince.get(session) ?? now;
      this.#awaySince.set(session, since);
      next = Math.min(next, ...this.#endOverdue(session, since, now));
    }
    if (next === Infinity) return;
    this.#timer = setTimeout(() => this.#schedule(), Math.min(Math.max(next - now, 1), MAX_TIMEOUT_MS));
  }

  /** The times at which the leases of this client end that have not ended yet. */
  #endOverdue(session: string, since: number, now: number): number[] {
    const pending: number[] = [];
    if (session === this.#debugger) {
      const end = since + this.times.debuggerMs;
      if (end > now) pending.push(end);
      else {
        this.#debugger = null;
        this.#write.attempt();
        this.actions.disconnectDebugger();
      }
    }
    const ids = this.#subshells.get(session);
    if (ids) {
      const end = since + this.times.subshellMs;
      if (end > now) pending.push(end);
      else {
        this.#subshells.delete(session);
        this.#write.attempt();
        for (const id of ids) this.actions.deleteSubshell(id);
      }
    }
    return pending;
  }

  #save(): void {
    if (this.#subshells.size === 0 && this.#debugger === null) {
      rmSync(this.file, { force: true });
      return;
    }
    const subshells = Object.fromEntries([...this.#subshells].map(([session, ids]) => [session, [...ids]]));
    const kernelSession = this.#kernelSession ?? '';
    writeForThisBootSync(this.file, { kernelSession, debugger: this.#debugger, subshells });
  }

  /** A file that cannot be read holds nothing: the subshells then stay until the kernel ends. */
  #load(): void {
    let json: unknown;
    try {
      json = JSON.parse(readFileSync(this.file, 'utf8'));
      if (!Value.Check(LeasesJson, json)) throw new Error('it has another shape');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') this.actions.onUnreadable(error as Error);
      return;
    }
    this.#kernelSession = json.kernelSession;
    this.#debugger = json.debugger;
    for (const [session, ids] of Object.entries(json.subshells)) this.#subshells.set(session, new Set(ids));
  }
}
