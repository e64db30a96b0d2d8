/** A journal record on its way to clients. Derived data (framing, addressee) is computed once for all clients. */
import { FROM_CLIENT, gapOf, type GapRecord, type JournalRecord, RecordChannel } from '../journal/record.js';
import { decodeV1, encodeLegacy, ifMessage, parentOf, parseParentHeader, PART } from '../jupyter/index.js';

/** `everyone`: iopub. `nobody`: messages from clients, and notes of the bridge. Otherwise one client's session. */
type Addressee = { to: 'everyone' } | { to: 'nobody' } | { to: 'session'; session: string };

interface LegacyFrame {
  readonly isText: boolean;
  readonly bytes: Buffer;
}

const ALL_CLIENTS: Addressee = { to: 'everyone' };
const NO_ADDRESSEE: Addressee = { to: 'nobody' };

export function isForClients(channel: number): boolean {
  return channel !== RecordChannel.bridge && (channel & FROM_CLIENT) === 0;
}

export class OutgoingMessage {
  readonly seq: number;
  /** The v1 frame, byte for byte as the journal has it. */
  readonly v1: Buffer;
  /** The missing messages that this record represents, if any. */
  readonly gap: GapRecord | null;
  /** The full record has to be read from the journal before it can be sent. */
  readonly isAbridged: boolean;
  readonly channel: number;
  #legacy: LegacyFrame | null | undefined;
  #addressee: Addressee | undefined;

  constructor(readonly record: JournalRecord) {
    this.seq = record.seq;
    this.v1 = record.payload;
    this.gap = gapOf(record);
    this.isAbridged = record.isAbridged === true && isForClients(record.channel);
    this.channel = record.channel;
  }

  /** Null for a message that the legacy framing cannot carry. */
  get legacy(): LegacyFrame | null {
    if (this.#legacy === undefined) this.#legacy = legacyOf(this.v1);
    return this.#legacy;
  }

  /** Header (JSON) of the request that an output belongs to; null for other messages, and when the message has no such header. */
  get outputOf(): Buffer | null {
    if (this.channel !== RecordChannel.iopub) return null;
    return ifMessage(() => {
      const parent = decodeV1(this.v1).parts[PART.parentHeader];
      return parent && parseParentHeader(parent) ? parent : null;
    });
  }

  get addressee(): Addressee {
    return (this.#addressee ??= addresseeOf(this.channel, this.v1));
  }
}

/** One malformed message must not stop the messages after it. */
function legacyOf(frame: Buffer): LegacyFrame | null {
  return ifMessage(() => {
    const encoded = encodeLegacy(decodeV1(frame));
    return typeof encoded === 'string'
      ? { isText: true, bytes: Buffer.from(encoded) }
      : { isText: false, bytes: encoded };
  });
}

/** A reply without a readable parent goes to no client: sending it to all would end other clients' requests. */
function addresseeOf(channel: number, frame: Buffer): Addressee {
  if (channel === RecordChannel.iopub) return ALL_CLIENTS;
  if (!isForClients(channel)) return NO_ADDRESSEE;
  const session = ifMessage(() => parentOf(decodeV1(frame)))?.session;
  return typeof session === 'string' ? { to: 'session', session } : NO_ADDRESSEE;
}
