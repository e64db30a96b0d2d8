/**
 * The confirmed position of each client of a kernel, stored so that it survives a gateway that is killed.
 *
 * One file per kernel, of fixed slots, each a line of JSON padded with spaces. A confirmation rewrites one slot in place (a
 * few microseconds into the page cache), so nothing has to be collected and flushed later. A slot that was torn by a crash
 * of the machine is not valid JSON and counts as free.
 */
import { closeSync, fstatSync, openSync, readFileSync, writeSync } from 'node:fs';
import { type OnWriteFault, RetriedWrite } from '@tpulab/platform/retried-write.js';

const SLOT_BYTES = 256;
/** In the kernel's folder. */
export const POSITIONS_FILE = 'positions';
/** Longest `session_id` whose line fits a slot even when every character needs escaping or three bytes. */
export const MAX_SESSION_ID = 64;
/** The client with the oldest confirmation is dropped; a page that reconnects after so many others starts live. */
export const MAX_SLOTS = 256;

interface Slot {
  readonly index: number;
  seq: number;
  at: number;
}

export class PositionStore {
  readonly #slots = new Map<string, Slot>();
  readonly #free: number[] = [];
  readonly #write: RetriedWrite;
  /** Clients whose position is not in the file. */
  readonly #unwritten = new Set<string>();
  #used = 0;
  #fd: number | null = null;
  #closed = false;

  constructor(
    private readonly file: string,
    onFault: OnWriteFault
  ) {
    this.#write = new RetriedWrite(() => this.#writeAll(), onFault);
    this.#write.attempt();
  }

  /** The last seq that this client has confirmed; undefined for an unknown client. */
  get(sessionId: string): number | undefined {
    return this.#slots.get(sessionId)?.seq;
  }

  set(sessionId: string, seq: number): void {
    if (this.#closed) return;
    this.#keep(sessionId, seq, Date.now());
    this.#unwritten.add(sessionId);
    this.#write.attempt();
  }

  /** The journal has lost the records after this one. Their numbers now belong to other messages, which no client has. */
  pullBack(newest: number): void {
    for (const [sessionId, slot] of this.#slots) {
      if (slot.seq <= newest) continue;
      slot.seq = newest;
      this.#unwritten.add(sessionId);
    }
    this.#write.attempt();
  }

  close(): void {
    this.#write[Symbol.dispose]();
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
    this.#closed = true;
  }

  #keep(sessionId: string, seq: number, at: number): void {
    let slot = this.#slots.get(sessionId);
    if (!slot) {
      slot = { index: this.#claimSlot(), seq, at };
      this.#slots.set(sessionId, slot);
    }
    slot.seq = seq;
    slot.at = at;
  }

  #open(): number {
    if (this.#fd !== null) return this.#fd;
    this.#fd = openSync(this.file, openFlags(this.file), 0o600);
    // Positions that were confirmed while the file could not be opened are merged with those in it.
    const meanwhile = [...this.#slots];
    this.#slots.clear();
    this.#used = 0;
    this.#load();
    for (const [sessionId, { seq, at }] of meanwhile) this.#keep(sessionId, seq, at);
    return this.#fd;
  }

  #writeAll(): void {
    const fd = this.#open();
    for (const session of this.#unwritten) {
      const slot = this.#slots.get(session);
      if (slot !== undefined) {
        const bytes = Buffer.alloc(SLOT_BYTES, ' ');
        bytes.write(JSON.stringify({ session, seq: slot.seq, at: slot.at }), 0, 'utf8');
        bytes.write('\n', SLOT_BYTES - 1, 'latin1');
        writeSync(fd, bytes, 0, SLOT_BYTES, slot.index * SLOT_BYTES);
      }
      this.#unwritten.delete(session);
    }
  }

  #claimSlot(): number {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    if (this.#used < MAX_SLOTS) return this.#used++;
    let oldest: [string, Slot] | null = null;
    for (const entry of this.#slots) if (!oldest || entry[1].at < oldest[1].at) oldest = entry;
    if (!oldest) throw new Error('a full position file without slots');
    this.#slots.delete(oldest[0]);
    return oldest[1].index;
  }

  #load(): void {
    if (this.#fd === null || fstatSync(this.#fd).size === 0) return;
    const bytes = readFileSync(this.#fd);
    this.#used = Math.min(MAX_SLOTS, Math.ceil(bytes.length / SLOT_BYTES));
    for (let index = 0; index < this.#used; index++) {
      const slot = parse(bytes.toString('utf8', index * SLOT_BYTES, (index + 1) * SLOT_BYTES));
      if (slot) this.#slots.set(slot.session, { index, seq: slot.seq, at: slot.at });
      else this.#free.push(index);
    }
  }
}

/** `r+` keeps the contents and allows writing anywhere; `a` would append, whatever the position. */
function openFlags(file: string): string {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  return 'r+';
}

function parse(line: string): { session: string; seq: number; at: number } | null {
  try {
    const value = JSON.parse(line) as Record<string, unknown>;
    const { session, seq, at } = value;
    if (typeof session !== 'string' || !Number.isSafeInteger(seq) || typeof at !== 'number') return null;
    return { session, seq: seq as number, at };
  } catch {
    return null;
  }
}

/** Whether the id fits into a slot. Jupyter's clients use UUIDs. */
export function isSessionId(text: string): boolean {
  return text.length <= MAX_SESSION_ID && !/[\u0000-\u001f\u007f]/.test(text);
}
