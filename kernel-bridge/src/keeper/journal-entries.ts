/** What the keeper appends to the kernel's journal: which record, how soon it must be durable, how dear it is. */
import { isUtf8 } from 'node:buffer';
import type { JournalWriter } from '../journal/journal-writer.js';
import { FROM_CLIENT, type GapRecord, RecordChannel, type RestartRecord } from '../journal/record.js';
import {
  type ChannelName,
  contentOf,
  ifMessage,
  JSON_PARTS,
  type KernelMessage,
  type MessageHeader,
  metadataOf,
  PART,
  partOf
} from '../jupyter/kernel-message.js';
import { encodeV1, v1Pieces } from '../jupyter/v1-frame.js';

/** Arguments of `JournalWriter.append`. */
export type JournalEntry = Parameters<JournalWriter['append']>;

const CHANNEL: Readonly<Record<ChannelName, number>> = RecordChannel;

/** Without these a client waits for ever, or cannot say what an output belongs to. */
const ESSENTIAL_ON_IOPUB: ReadonlySet<string> = new Set(['status', 'execute_input', 'error']);

export function fromKernel(
  { channel, parts }: KernelMessage,
  msgType: string,
  status: string | null
): JournalEntry {
  return [
    CHANNEL[channel],
    v1Pieces(channel, parts.map(readable)),
    {
      durable: msgType === 'execute_reply' || msgType === 'error' || status === 'idle',
      essential: channel !== 'iopub' || ESSENTIAL_ON_IOPUB.has(msgType)
    }
  ];
}

/** Kernels send file names and halves of characters as bytes of no encoding; a strict client would drop the message or the socket. */
function readable(part: Buffer, index: number): Buffer {
  return index >= JSON_PARTS || isUtf8(part) ? part : Buffer.from(part.toString());
}

/** `frame` is the client's own v1 frame; `after` sends it on. */
export function fromClient(channel: ChannelName, frame: Buffer, after: () => void): JournalEntry {
  return [CHANNEL[channel] | FROM_CLIENT, [frame], { essential: true, after }];
}

/** A status that the bridge itself made. */
export function ownStatus(parts: readonly Buffer[]): JournalEntry {
  return [RecordChannel.iopub, v1Pieces('iopub', parts), { durable: true, essential: true }];
}

/**
 * For readers of the journal: another process follows, or messages are missing that the journal never got. Clients are shown a
 * gap at its place; of a restart they hear what the kernel says about its end, and then the next process.
 */
export function ownRecord(record: RestartRecord | GapRecord): JournalEntry {
  return [RecordChannel.bridge, [Buffer.from(JSON.stringify(record))], { durable: true, essential: true }];
}

/** `execution_state` of a status message; null for any other message. */
export function statusOf(msgType: string, message: KernelMessage): string | null {
  if (msgType !== 'status') return null;
  try {
    const { execution_state: state } = contentOf(message);
    return typeof state === 'string' ? state : null;
  } catch {
    return null; // signed, but not JSON: it is passed on as it is and changes no state
  }
}

/**
 * What somebody types into a password prompt is sent to the kernel, and is not kept: the journal gets the answer without
 * its value. Everything else that clients say is kept as it came.
 */
export class SecretInput {
  /**
   * Whether the last question of the kernel was for a password. True before any question was heard: a keeper that has taken
   * over a kernel does not know what was asked before, and an answer that nobody asked for tells the journal nothing.
   */
  #secret = true;

  /** A message of the kernel on stdin. */
  inputRequested(message: KernelMessage, header: MessageHeader): void {
    if (header.msg_type === 'input_request') {
      this.#secret = objectOf(() => contentOf(message))['password'] === true;
    }
  }

  /** The frame to be kept instead of this message of a client; null when it may be kept as it is. */
  withoutSecret(message: KernelMessage, header: MessageHeader): Buffer | null {
    if (!this.#secret || message.channel !== 'stdin' || header.msg_type !== 'input_reply') return null;
    const metadata = { ...objectOf(() => metadataOf(message)), tpulab: { redacted: true } };
    const content = { ...objectOf(() => contentOf(message)), value: '' };
    return encodeV1({
      channel: 'stdin',
      parts: [
        partOf(message, PART.header),
        partOf(message, PART.parentHeader),
        Buffer.from(JSON.stringify(metadata)),
        Buffer.from(JSON.stringify(content))
      ]
    });
  }
}

/** What cannot be read is treated as empty: nothing of it is kept then. */
function objectOf(read: () => Record<string, unknown>): Record<string, unknown> {
  return ifMessage(read) ?? {};
}
