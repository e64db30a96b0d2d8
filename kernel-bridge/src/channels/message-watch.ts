/**
 * Messages between a kernel and its clients on control and stdin, read as they pass. Few messages use these channels, so
 * parsing them costs little; shell and iopub are not parsed.
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

/** Whether records of this channel are inspected. */
export function isWatched(channel: number): boolean {
  const number = channel & ~FROM_CLIENT;
  return number === RecordChannel.control || number === RecordChannel.stdin;
}

/** Null for other channels, and for messages that cannot be read. */
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
