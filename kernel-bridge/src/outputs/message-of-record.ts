/** The parts of a journal record that reading outputs needs. Frames and their contents are parsed only on demand. */
import { FROM_CLIENT, type JournalRecord, RecordChannel } from '../journal/index.js';
import { decodeV1, JSON_PARTS, PART, v1Part } from '../jupyter/index.js';
import { displayIdOf } from './kernel-output.js';
import { asObject, jsonIn } from '@tpulab/platform/json-text.js';

export interface JournaledMessage {
  readonly seq: number;
  readonly timeMs: number;
  readonly fromClient: boolean;
  readonly onIopub: boolean;
  readonly msgId: string;
  readonly msgType: string;
  readonly session: string;
  readonly parentId: string | null;
  readonly parentType: string | null;
  /** The v1 frame. */
  readonly frame: Buffer;
}

export class MessageReader {
  /** Adjacent records mostly have the same parent, byte for byte. */
  #parentBytes: Buffer = Buffer.alloc(0);
  #parent: { readonly id: string | null; readonly type: string | null } = NO_PARENT;

  /** Null for a record that is not a message, or cannot be read. */
  read(record: JournalRecord): JournaledMessage | null {
    const channel = record.channel & ~FROM_CLIENT;
    if (channel === RecordChannel.bridge || channel === RecordChannel.stdin) return null;
    const frame = record.payload;
    const header = v1Part(frame, PART.header);
    const parentHeader = v1Part(frame, PART.parentHeader);
    if (header === null || parentHeader === null) return null;
    const { msg_id: msgId, msg_type: msgType, session } = parse(header);
    if (typeof msgId !== 'string' || typeof msgType !== 'string') return null;
    const parent = this.#parentOf(parentHeader);
    return {
      seq: record.seq,
      timeMs: Number(record.timeNs / 1_000_000n),
      fromClient: (record.channel & FROM_CLIENT) !== 0,
      onIopub: channel === RecordChannel.iopub,
      msgId,
      msgType,
      session: typeof session === 'string' ? session : '',
      parentId: parent.id,
      parentType: parent.type,
      frame
    };
  }

  #parentOf(bytes: Buffer): { readonly id: string | null; readonly type: string | null } {
    if (bytes.length <= 2) return NO_PARENT;
    if (bytes.equals(this.#parentBytes)) return this.#parent;
    const { msg_id: id, msg_type: type } = parse(bytes);
    this.#parent = {
      id: typeof id === 'string' ? id : null,
      type: typeof type === 'string' ? type : null
    };
    // A copy: a view would keep its whole chunk in memory.
    this.#parentBytes = Buffer.from(bytes);
    return this.#parent;
  }
}

const NOTHING = Buffer.alloc(0);
const NO_PARENT = { id: null, type: null };

export function contentOf({ frame }: JournaledMessage): Record<string, unknown> {
  return parse(v1Part(frame, PART.content) ?? NOTHING);
}

export function metadataOf({ frame }: JournaledMessage): Record<string, unknown> {
  return parse(v1Part(frame, PART.metadata) ?? NOTHING);
}

/** The key of a display, including the process that shows it: the next process uses the same ids for other displays. */
export function displayKeyOf(message: JournaledMessage): string | null {
  const id = displayIdOf(contentOf(message));
  return id === null ? null : `${message.session}\n${id}`;
}

/** The kernel's id; null if it belongs to another process than `session`, which cannot update it. */
export function displayIdIn(session: string | null, key: string | null): string | null {
  return session !== null && key?.startsWith(`${session}\n`) === true ? key.slice(session.length + 1) : null;
}

/** The session of the request that a message belongs to. */
export function sessionOf({ frame }: JournaledMessage): string | null {
  const { session } = parse(v1Part(frame, PART.parentHeader) ?? NOTHING);
  return typeof session === 'string' ? session : null;
}

/** Whether the text occurs in the content; avoids parsing most contents. */
export function contentMentions({ frame }: JournaledMessage, text: string): boolean {
  return v1Part(frame, PART.content)?.includes(text) === true;
}

export function bufferCount({ frame }: JournaledMessage): number {
  return Math.max(decodeV1(frame).parts.length - JSON_PARTS, 0);
}

/** Kernels may send invalid JSON; the journal stores it anyway. */
function parse(bytes: Buffer): Record<string, unknown> {
  return asObject(jsonIn(bytes));
}
