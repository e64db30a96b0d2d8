/**
 * Leases of clients in a kernel: the subshells that they created, and the debugger.
 *
 * A lease lasts while its client is attached and for a time after that: a laptop that wakes from sleep finds its
 * subshells, but a debugger whose page was closed must not leave a cell stopped. Leases are stored in a file, so that the next
 * gateway ends them too; a new gateway or a new socket restarts the time. A restart of the kernel
 * ends all leases.
 */
import { readFileSync, rmSync } from 'node:fs';
import { Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { type OnWriteFault, RetriedWrite } from '@tpulab/platform/retried-write.js';
import { writeForThisBootSync } from '@tpulab/platform/write-atomically.js';

export interface LeaseTimes {
  /** From the loss of a client's last socket to the deletion of its subshells. */
  readonly subshellMs: number;
  /** From the loss of the debugging client's last socket until its debugger is disconnected. */
  readonly debuggerMs: number;
}

/** A subshell costs one sleeping thread, so keeping it for a day is cheap; a stopped cell is not. */
export const LEASE_TIMES: LeaseTimes = { subshellMs: 24 * 3_600_000, debuggerMs: 60_000 };

export interface LeaseActions {
  isAttached(session: string): boolean;
  deleteSubshell(id: string): void;
  disconnectDebugger(): void;
  readonly onWriteFault: OnWriteFault;
  /** The file exists but cannot be read or parsed. */
  onUnreadable(error: Error): void;
}

const LeasesJson = Type.Object({
  kernelSession: Type.String(),
  debugger: Type.Union([Type.String(), Type.Null()]),
  subshells: Type.Record(Type.String(), Type.Array(Type.String()))
});

/** Maximum of setTimeout; a longer wait is split. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export class ClientLeases implements Disposable {
  readonly #write: RetriedWrite;
  /** `header.session` of a client to the ids of its subshells. */
  readonly #subshells = new Map<string, Set<string>>();
  #debugger: string | null = null;
  #kernelSession: string | null = null;
  /** When each disconnected lease holder was lost, by the monotonic clock. */
  readonly #disconnectedSince = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;

  constructor(
    private readonly file: string,
    private readonly times: LeaseTimes,
    private readonly actions: LeaseActions
  ) {
    this.#write = new RetriedWrite(() => this.#save(), actions.onWriteFault);
    this.#load();
  }

  /** `header.session` of the client that is debugging. */
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

  /** Called with the kernel's `header.session`. True: it has changed, so the process is a new one and all leases have ended. */
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

  /** A client was attached or detached. */
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

  /** Determines which clients are disconnected, ends overdue leases, and schedules the next expiry. */
  #schedule(): void {
    this.#stopWaiting();
    const now = performance.now();
    const holders = new Set(this.#subshells.keys());
    if (this.#debugger !== null) holders.add(this.#debugger);
    for (const session of this.#disconnectedSince.keys()) {
      if (!holders.has(session) || this.actions.isAttached(session)) this.#disconnectedSince.delete(session);
    }
    let next = Infinity;
    for (const session of holders) {
      if (this.actions.isAttached(session)) continue;
      const since = this.#disconnectedSince.get(session) ?? now;
      this.#disconnectedSince.set(session, since);
      next = Math.min(next, ...this.#endOverdue(session, since, now));
    }
    if (next === Infinity) return;
    this.#timer = setTimeout(() => this.#schedule(), Math.min(Math.max(next - now, 1), MAX_TIMEOUT_MS));
  }

  /** The future expiry times of this client's leases; overdue ones are ended. */
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

  /** A file that cannot be read contains no leases: the subshells then stay until the kernel ends. */
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
