/** A kernel's journal as a stream that continues as the journal grows: another gateway stores it as a mirror. */
import path from 'node:path';
import {
  MAX_DOCUMENT_PATH,
  STREAM_FRAME,
  STREAM_FRAME_HEADER_BYTES,
  type StreamNote
} from '@tpulab/protocol';
import { bytesOfBatch, checksumOfRecord, JournalReader, measureSegments } from '../journal/index.js';
import { readEnded } from '../kernels/journal-folders.js';
import { documentsOfKernel } from '../kernels/kernel-documents.js';
import type { Kernel } from '../kernels/kernel.js';

interface JournalStreamOptions {
  readonly journalDir: string;
  /** Null for a kernel that has ended: the stream ends with its journal. */
  readonly kernel: Pick<Kernel, 'lastSeq' | 'listen' | 'isRemoved'> | null;
  readonly from: number;
  /** Checksum of record `from` - 1 in the client's copy. */
  readonly checksum: number | undefined;
  readonly signal: AbortSignal;
  /** How long new records are gathered, so that a flood is sent in large chunks. */
  readonly coalesceMs?: number;
  /** After this long without new records the position is sent again, so that both ends detect a lost connection. */
  readonly positionIntervalMs?: number;
}

const GATHER_MS = 50;
const POSITION_INTERVAL_MS = 10_000;
/** `ended.json` is written a moment after the kernel's removal is reported. */
const ENDED_WAIT_MS = 100;
const ENDED_TRIES = 20;

/** Frames of `protocol/src/mirror.ts`. Ends when the kernel has ended, or the signal fires. */
export async function* journalStream(options: JournalStreamOptions): AsyncGenerator<Buffer, void, void> {
  const { journalDir, kernel, signal } = options;
  const reader = new JournalReader(journalDir);
  const changes = new KernelChanges(kernel, signal);
  const documents = newDocuments(path.dirname(journalDir));
  try {
    let next = options.from;
    if (!(await isSameJournal(reader, next, options.checksum))) {
      yield note({ kind: 'restart' });
      next = 1;
    }
    yield note({
      kind: 'standing',
      lastSeq: next - 1,
      behindBytes: await bytesFrom(journalDir, next),
      ...(await documents())
    });
    while (!signal.aborted) {
      // Before the read, so that records that arrive during it do not count as read.
      changes.seen();
      const over = changes.isOver;
      const newest = kernel?.lastSeq ?? 0;
      const end = over ? { ended: true } : { to: newest, newest: () => newest };
      try {
        for await (const batch of reader.readAcross(next, { ...end, signal })) {
          const missing = batch[0]?.missing;
          if (missing === undefined) {
            yield frame(STREAM_FRAME.records, bytesOfBatch(batch));
            next += batch.length;
          } else {
            const { fromSeq, toSeq, code, reason } = missing;
            yield note({ kind: 'gap', fromSeq, toSeq, code, reason });
            next = toSeq + 1;
          }
        }
      } catch (error) {
        if (isOver(signal)) return;
        throw error;
      }
      if (over) {
        yield note(await endOf(journalDir, next - 1));
        return;
      }
      yield note({ kind: 'standing', lastSeq: next - 1, behindBytes: 0, ...(await documents()) });
      await changes.wait(options.positionIntervalMs ?? POSITION_INTERVAL_MS, options.coalesceMs ?? GATHER_MS);
    }
  } finally {
    changes[Symbol.dispose]();
  }
}

function isOver(signal: AbortSignal): boolean {
  return signal.aborted;
}

/** How many bytes a client with every record before `from` is missing; an estimate from the sizes of the files. */
async function bytesFrom(journalDir: string, from: number): Promise<number> {
  const segments = await measureSegments(journalDir);
  const first = segments.findLastIndex(({ firstSeq }) => firstSeq <= from);
  return segments.slice(Math.max(first, 0)).reduce((sum, { bytes }) => sum + bytes, 0);
}

/** A client may have records that this machine lost in a power failure, or records of another kernel with the same id. */
async function isSameJournal(
  reader: JournalReader,
  from: number,
  checksum: number | undefined
): Promise<boolean> {
  if (from <= 1) return true;
  // Records that are no longer stored cannot be compared, and are not sent again either.
  if (from <= (await reader.firstSeq())) return true;
  if (checksum === undefined) return from <= (await reader.lastSeq()) + 1;
  try {
    for await (const record of reader.read(from - 1, { to: from - 1 })) {
      return checksumOfRecord(record) === checksum;
    }
    return false;
  } catch {
    return true; // The journal is damaged at this record; the stream reports that when it gets there.
  }
}

/** Returns the documents of the kernel if they have changed since the last call. */
function newDocuments(kernelDir: string): () => Promise<{ documents?: string[] }> {
  let lastSent = '[]';
  return async () => {
    const all = await documentsOfKernel(kernelDir);
    const documents = all.filter(each => each.length <= MAX_DOCUMENT_PATH);
    const text = JSON.stringify(documents);
    if (text === lastSent) return {};
    lastSent = text;
    return { documents };
  };
}

async function endOf(journalDir: string, lastSeq: number): Promise<StreamNote> {
  let ended = null;
  for (let attempt = 0; ended === null && attempt < ENDED_TRIES; attempt++) {
    if (attempt > 0) await new Promise(resolve => setTimeout(resolve, ENDED_WAIT_MS));
    ended = await readEnded(path.dirname(journalDir)).catch(() => null);
    const exists = (await measureSegments(journalDir)).length > 0;
    if (!exists) break;
  }
  return {
    kind: 'ended',
    lastSeq,
    endedAt: ended?.endedAt ?? new Date().toISOString(),
    reason: ended?.reason ?? 'the kernel has ended',
    specName: ended?.specName ?? null
  };
}

function frame(type: number, body: Buffer): Buffer {
  const header = Buffer.alloc(STREAM_FRAME_HEADER_BYTES);
  header.writeUInt32LE(body.length);
  header[4] = type;
  return Buffer.concat([header, body]);
}

function note(value: StreamNote): Buffer {
  return frame(STREAM_FRAME.note, Buffer.from(JSON.stringify(value)));
}

/** Whether the kernel has sent anything since the last check, and whether it has ended. */
class KernelChanges implements Disposable {
  readonly #listening: Disposable | null;
  #wake: () => void = () => undefined;
  #isNew = false;
  #isOver: boolean;

  constructor(
    kernel: JournalStreamOptions['kernel'],
    private readonly signal: AbortSignal
  ) {
    this.#isOver = kernel === null || kernel.isRemoved;
    const changed = (): void => {
      this.#isNew = true;
      this.#wake();
    };
    this.#listening =
      kernel?.listen({
        record: changed,
        removed: () => {
          this.#isOver = true;
          changed();
        }
      }) ?? null;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  seen(): void {
    this.#isNew = false;
  }

  /** Waits for a change, at most `longestMs`; then waits `coalesceMs` for more. */
  async wait(longestMs: number, coalesceMs: number): Promise<void> {
    if (!this.#isNew && !this.signal.aborted) await this.#changed(longestMs);
    if (this.#isNew && !this.#isOver && !this.signal.aborted) {
      await new Promise(resolve => setTimeout(resolve, coalesceMs));
    }
  }

  /** Leaves no listener on the signal, which lives as long as the stream, perhaps for days. */
  #changed(longestMs: number): Promise<void> {
    return new Promise(resolve => {
      const end = (): void => {
        clearTimeout(timer);
        this.signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, longestMs);
      this.signal.addEventListener('abort', end);
      this.#wake = end;
    });
  }

  [Symbol.dispose](): void {
    this.#listening?.[Symbol.dispose]();
  }
}
