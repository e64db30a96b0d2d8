/**
 * `checkpoint.json` in a kernel's folder: the state of the kernel as of one record of the journal. A keeper that takes over
 * continues to read the journal from there, and need not read all of it.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  integer,
  isShaped,
  list,
  object,
  orNull,
  pair,
  type Shaped,
  text,
  truth
} from '@tpulab/platform/shape.js';
import { writeForThisBoot } from '@tpulab/platform/write-atomically.js';
import type { ChannelName } from '../jupyter/kernel-message.js';
import type { Positions, ResendLink } from './resend-link.js';
import type { KeeperLog } from './keeper-log.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

const RestorableState = object({
  /** The kernel has answered, and accepts requests. */
  ready: truth,
  /** `header.session` of the kernel's messages. */
  session: orNull(text()),
  /** The running requests: subshell ('' is the main one), header of the request as the kernel sent it. */
  busy: list(pair(text(), text()))
});
export type RestorableState = Shaped<typeof RestorableState>;

const Checkpoint = object(
  {
    /** The last record that this state includes. */
    seq: integer({ min: 0 }),
    /** The kernel process that this state describes; a restart replaces the process. */
    kernelPid: integer(),
    state: RestorableState,
    /** Content (JSON text) of the kernel's last `kernel_info_reply`. */
    kernelInfo: orNull(text())
  },
  {
    /** See `KernelSnapshot`. */
    renumberedFrom: integer({ min: 1 })
  }
);
export type Checkpoint = Shaped<typeof Checkpoint>;

export function checkpointFile(kernelDir: string): string {
  return join(kernelDir, 'checkpoint.json');
}

/** Null when there is no checkpoint, or it cannot be read: the journal is then read from its beginning. */
export async function readCheckpoint(kernelDir: string): Promise<Checkpoint | null> {
  const value = jsonIn(await readFile(checkpointFile(kernelDir), 'utf8').catch(() => null));
  return isShaped(Checkpoint, value) ? value : null;
}

async function writeCheckpoint(kernelDir: string, checkpoint: Checkpoint): Promise<void> {
  await writeForThisBoot(checkpointFile(kernelDir), checkpoint);
}

const PERIOD_MS = 1_000;
/** Large enough for a tenth of a second of the largest outputs, small enough for the kernel's memory. */
const BYTES = 8 * 1024 * 1024;

/**
 * Confirms the journaled messages to a kernel's ring, so that the kernel may drop them, and stores the kernel's state at
 * that time for a keeper that takes over. It does so at most once per second while records are written, or after some
 * megabytes; never when idle.
 *
 * The checkpoint is written after the kernel has dropped the messages: a reader of the journal from there on finds the ids
 * of all messages that are both in the journal and in the ring.
 */
interface ConfirmerParts {
  readonly kernelDir: string;
  readonly kernelPid: number;
  /** The current state, or a state later than the last written record. */
  readonly describe: () => Omit<Checkpoint, 'seq' | 'kernelPid'>;
  readonly log: KeeperLog;
}

export class Confirmer {
  readonly #received: Partial<Record<ChannelName, string>> = {};
  #written: Positions = {};
  #seq: number;
  #bytes = 0;
  #link: ResendLink | null = null;
  #begun = false;
  #timer: NodeJS.Timeout | null = null;
  #flushing: Promise<void> | null = null;
  #due = false;
  #closed = false;

  constructor(
    private readonly parts: ConfirmerParts,
    lastSeq: number
  ) {
    this.#seq = lastSeq;
  }

  /** Confirms from now on, and once immediately. Takes ownership of the link; null for a kernel that has no ring. */
  begin(link: ResendLink | null): void {
    if (this.#closed) {
      link?.close();
      return;
    }
    this.#link = link;
    this.#begun = true;
    this.#flush();
  }

  /** A kernel message has been passed to the journal. */
  received(channel: ChannelName, msgId: string): void {
    this.#received[channel] = msgId;
  }

  /** All messages passed to the journal are in its files. */
  written(lastSeq: number, bytes: number): void {
    this.#written = { ...this.#received };
    this.#seq = lastSeq;
    this.#bytes += bytes;
    if (this.#begun && this.#bytes > BYTES) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), PERIOD_MS);
  }

  /** Called when the kernel has ended, or its keeper ends. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer ?? undefined);
    this.#link?.close();
    await this.#flushing;
  }

  #flush(): void {
    clearTimeout(this.#timer ?? undefined);
    this.#timer = null;
    if (!this.#begun || this.#closed) return;
    if (this.#flushing !== null) {
      this.#due = true;
      return;
    }
    this.#bytes = 0;
    this.#flushing = this.#confirm()
      .catch((error: unknown) => this.parts.log.warn({ err: error }, 'the checkpoint cannot be written'))
      .finally(() => {
        this.#flushing = null;
        if (this.#due) {
          this.#due = false;
          this.#flush();
        }
      });
  }

  async #confirm(): Promise<void> {
    const { kernelDir, kernelPid, describe, log } = this.parts;
    const seq = this.#seq;
    if (this.#link !== null) {
      try {
        await this.#link.confirm(this.#written);
      } catch (error) {
        log.info({ err: error }, 'the kernel takes no more confirmations');
        this.#link.close();
        this.#link = null;
      }
    }
    if (!this.#closed) await writeCheckpoint(kernelDir, { seq, kernelPid, ...describe() });
  }
}
