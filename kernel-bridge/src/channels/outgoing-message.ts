/** A journal record on its way to clients. What is worked out once (framing, addressee) serves every client. */
import { FROM_CLIENT, type GapRecord, gapOf, type JournalRecord, RecordChannel } from '../journal/record.js';
import { decodeV1, encodeLegacy, PART, parseParentHeader, WireError } from '../wire/index.js';
import { numberedFrame } from './subprotocols.js';

/** `everyone`: iopub. `nobody`: what clients said, and notes of the bridge. Otherwise one client's session. */
export type Addressee = { to: 'everyone' } | { to: 'nobody' } | { to: 'session'; session: string };

const EVERYONE: Addressee = { to: 'everyone' };
const NOBODY: Addressee = { to: 'nobody' };

export class OutgoingMessage {
  readonly seq: number;
  /** The v1 frame, byte for byte as the journal has it. */
  readonly v1: Buffer;
  /** What this record tells of, when it stands for messages that are missing. */
  readonly gap: GapRecord | null;
  readonly #channel: number;
  #legacy: string | Buffer | null | undefined;
  #numbered: Buffer | undefined;
  #addressee: Addressee | undefined;

  constructor(record: JournalRecord) {
    this.seq = record.seq;
    this.v1 = record.payload;
    this.gap = gapOf(record);
    this.#channel = record.channel;
  }

  /** For clients of numbered channels. */
  get numbered(): Buffer {
    return (this.#numbered ??= numberedFrame(this.seq, this.v1));
  }

  /** Null for a message that the legacy framing cannot carry. */
  get legacy(): string | Buffer | null {
    if (this.#legacy === undefined) this.#legacy = legacyOf(this.v1);
    return this.#legacy;
  }

  /** Header (JSON) of the request that an output belongs to; null for other messages, and where there is none. */
  get outputOf(): Buffer | null {
    if (this.#channel !== RecordChannel.iopub) return null;
    try {
      const parent = decodeV1(this.v1).parts[PART.parentHeader];
      return parent && parseParentHeader(parent) ? parent : null;
    } catch (error) {
      if (error instanceof WireError) return null;
      throw error;
    }
  }

  get addressee(): Addressee {
    return (this.#addressee ??= addresseeOf(this.#channel, this.v1));
  }
}

/** One odd message must not end what comes after it. */
function legacyOf(frame: Buffer): string | Buffer | null {
  try {
    return encodeLegacy(decodeV1(frame));
  } catch (error) {
    if (error instanceof WireError) return null;
    throw error;
  }
}

/** An answer without a readable parent belongs to nobody: sending it to all would end other clients' requests. */
function addresseeOf(channel: number, frame: Buffer): Addressee {
  if (channel === RecordChannel.iopub) return EVERYONE;
  if (channel === RecordChannel.bridge || (channel & FROM_CLIENT) !== 0) return NOBODY;
  try {
    const part = decodeV1(frame).parts[PART.parentHeader];
    const session = part && parseParentHeader(part)?.session;
    return typeof session === 'string' ? { to: 'session', session } : NOBODY;
  } catch {
    return NOBODY;
  }
}
