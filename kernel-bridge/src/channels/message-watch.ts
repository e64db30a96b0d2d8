/**
 * What a kernel and its clients say to each other on control and stdin, read as it passes. Few messages go there, so
 * taking them apart costs nothing that matters; shell and iopub are left alone.
 */
import { FROM_CLIENT, type JournalRecord, RecordChannel } from '../journal/record.js';
import {
  decodeV1,
  type MessageHeader,
  parseHeader,
  parseObject,
  parseParentHeader,
  PART,
  WireError
} from '../jupyter/index.js';

const NO_PART = Buffer.alloc(0);

export interface WatchedMessage {
  readonly channel: 'control' | 'stdin';
  readonly fromClient: boolean;
  readonly header: MessageHeader;
  readonly parent: MessageHeader | null;
  readonly content: Readonly<Record<string, unknown>>;
}

/** Whether records of this channel are looked at. */
export function isWatched(channel: number): boolean {
  const number = channel & ~FROM_CLIENT;
  return number === RecordChannel.control || number === RecordChannel.stdin;
}

/** Null for other channels, and for what cannot be read. */
export function watchedMessage(record: JournalRecord): WatchedMessage | null {
  if (!isWatched(record.channel)) return null;
  const number = record.channel & ~FROM_CLIENT;
  try {
    const { parts } = decodeV1(record.payload);
    return {
      channel: number === RecordChannel.control ? 'control' : 'stdin',
      fromClient: number !== record.channel,
      header: parseHeader(parts[PART.header] ?? NO_PART),
      parent: parseParentHeader(parts[PART.parentHeader] ?? NO_PART),
      content: parseObject(parts[PART.content] ?? NO_PART, 'content')
    };
  } catch (error) {
    if (error instanceof WireError) return null;
    throw error;
  }
}
