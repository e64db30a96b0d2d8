/**
 * What a kernel and its clients say to each other on control and stdin, read as it passes. Few messages go there, so
 * taking them apart costs nothing that matters; shell and iopub are left alone.
 */
import { FROM_CLIENT, type JournalRecord, RecordChannel } from '../journal/record.js';
import { contentOf, decodeV1, headerOf, ifMessage, type MessageHeader, parentOf } from '../jupyter/index.js';

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
  return ifMessage(() => {
    const message = decodeV1(record.payload);
    return {
      channel: number === RecordChannel.control ? 'control' : 'stdin',
      fromClient: number !== record.channel,
      header: headerOf(message),
      parent: parentOf(message),
      content: contentOf(message)
    };
  });
}
