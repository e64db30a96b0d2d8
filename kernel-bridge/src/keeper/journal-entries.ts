/** What the keeper appends to the kernel's journal: the record, how soon it must be durable, and its priority. */
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

/** Without these a client waits forever, or cannot assign an output to its request. */
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

/** Kernels send file names and split characters as invalid UTF-8; a strict client would drop the message or the socket. */
function readable(part: Buffer, index: number): Buffer {
  return index >= JSON_PARTS || isUtf8(part) ? part : Buffer.from(part.toString());
}

/** `frame` is the client's own v1 frame; `after` sends it to the kernel. */
export function fromClient(channel: ChannelName, frame: Buffer, after: () => void): JournalEntry {
  return [CHANNEL[channel] | FROM_CLIENT, [frame], { essential: true, after }];
}

/** A status that the bridge itself created. */
export function ownStatus(parts: readonly Buffer[]): JournalEntry {
  return [RecordChannel.iopub, v1Pieces('iopub', parts), { durable: true, essential: true }];
}

/**
 * Notes for readers of the journal: another process follows, or messages are missing that the journal never got. Clients
 * see a gap at its place; at a restart they receive the kernel's messages about its end, and then messages of the next
 * process.
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
    return null; // signed, but not JSON: it is forwarded unchanged and changes no state
  }
}

/**
 * A password that a user types is sent to the kernel, and is not stored: the journal gets the answer without
 * its value. All other client messages are stored unchanged.
 */
export class SecretInput {
  /**
   * Whether the last stdin question of the kernel was for a password. True before any question arrived: a keeper that has taken
   * over a kernel does not know the earlier questions, and an unrequested answer is useless in the journal.
   */
  #secret = true;

  /** A message of the kernel on stdin. */
  inputRequested(message: KernelMessage, header: MessageHeader): void {
    if (header.msg_type === 'input_request') {
      this.#secret = objectOf(() => contentOf(message))['password'] === true;
    }
  }

  /** The frame to be stored instead of this message of a client; null when it may be stored unchanged. */
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

/** An unreadable message is treated as empty: nothing of it is stored then. */
function objectOf(read: () => Record<string, unknown>): Record<string, unknown> {
  return ifMessage(read) ?? {};
}
