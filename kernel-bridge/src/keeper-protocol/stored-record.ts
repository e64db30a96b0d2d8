/**
 * Large records travel from the keeper to the gateway through the file in which they were just written: one copy, served
 * from the system's cache, instead of two through a socket in many chunks. Messages from clients are not read back at all.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { FROM_CLIENT, type JournalRecord } from '../journal/record.js';
import type { StoredRecord } from '../journal/record-batch.js';
import { segmentFileName } from '../journal/segment-file.js';
import { decodeV1, encodeV1 } from '../jupyter/v1-frame.js';
import { PART } from '../jupyter/kernel-message.js';
import type { LargeRecordRef } from './messages.js';
import { InTurn } from '@tpulab/platform/waiting.js';

const MAX_HEADER_BYTES = 16 * 1024;
const EMPTY = Buffer.from('{}');
const CHANNELS = ['shell', 'control', 'stdin', 'iopub'] as const;

export function largeRecordRef({ pieces, ...place }: StoredRecord): LargeRecordRef {
  return { ...place, header: (place.channel & FROM_CLIENT) === 0 ? null : headerOf(pieces) };
}

/** A client's frame is one piece. */
function headerOf([frame = EMPTY]: readonly Buffer[]): string | null {
  const header = decodeV1(frame).parts[PART.header];
  return header === undefined || header.length > MAX_HEADER_BYTES ? null : header.toString('utf8');
}

/** The record that a note describes. Without the payload, a message with only its header. */
export function recordOf(
  { seq, timeMs, channel, header }: LargeRecordRef,
  payload: Buffer | null
): JournalRecord {
  const record = { seq, timeNs: BigInt(timeMs) * 1_000_000n, channel };
  if (payload !== null) return { ...record, payload };
  const parts = [header === null ? EMPTY : Buffer.from(header), EMPTY, EMPTY, EMPTY];
  const name = CHANNELS[channel & ~FROM_CLIENT] ?? 'iopub';
  return { ...record, payload: encodeV1({ channel: name, parts }), isAbridged: true };
}

/** Reads payloads. The newest segment stays open, because the next records are in it too. */
export class StoredPayloads implements AsyncDisposable {
  #open: { readonly segment: number; readonly handle: FileHandle } | null = null;
  readonly #reading = new InTurn();
  #isDisposed = false;

  constructor(private readonly journalDir: string) {}

  /** Null if the record no longer exists. Only for notes of a running keeper: the checksum is not verified again. */
  read(note: LargeRecordRef): Promise<Buffer | null> {
    return this.#reading.run(() => this.#read(note)).catch(() => null);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    await this.#reading.settled;
    await this.#close();
  }

  async #read({ segment, offset, bytes }: LargeRecordRef): Promise<Buffer | null> {
    if (this.#isDisposed) return null;
    const handle = await this.#handleOf(segment);
    const payload = Buffer.allocUnsafeSlow(bytes);
    for (let filled = 0; filled < bytes;) {
      const { bytesRead } = await handle.read(payload, filled, bytes - filled, offset + filled);
      if (bytesRead === 0) return null;
      filled += bytesRead;
    }
    return payload;
  }

  async #handleOf(segment: number): Promise<FileHandle> {
    if (this.#open?.segment !== segment) {
      await this.#close();
      this.#open = { segment, handle: await open(join(this.journalDir, segmentFileName(segment)), 'r') };
    }
    return this.#open.handle;
  }

  async #close(): Promise<void> {
    const opened = this.#open;
    this.#open = null;
    await opened?.handle.close();
  }
}
