/**
 * The record from which a client resumes. Its number is enough, unless a journal was cut and the kernel has resent the lost
 * messages: these get new numbers, in another order if replies are among them. The position is then found from the client's
 * last messages, channel by channel, because a channel keeps its order.
 */
import { type JournalRecord, RecordChannel } from '../journal/record.js';
import { type ChannelName, messageIdIn } from '../jupyter/index.js';

/** By channel, the `msg_id` of the last message that the client has. */
export type LastMessages = ReadonlyMap<ChannelName, string>;

export interface ResumePoint {
  readonly position: number;
  /** By journal channel: the client has every message up to this record. */
  readonly has: ReadonlyMap<number, number>;
}

interface Numbering {
  /** Numbers before this one have never changed. */
  readonly renumberedFrom: number;
  readonly newest: number;
  readonly read: (fromSeq: number) => AsyncIterable<readonly JournalRecord[]>;
}

/** Call this when the kernel has finished resending. */
export async function resumePoint(
  resume: number,
  last: LastMessages,
  { renumberedFrom, newest, read }: Numbering
): Promise<ResumePoint> {
  const ids = new Map<number, string>([...last].map(([channel, id]) => [RecordChannel[channel], id]));
  if (resume < renumberedFrom || (resume <= newest && (await isAt(resume, ids, read)))) {
    return { position: resume, has: new Map() };
  }
  const has = new Map<number, number>();
  if (renumberedFrom <= newest) {
    for await (const records of read(renumberedFrom)) {
      for (const record of records) {
        const id = ids.get(record.channel);
        if (id !== undefined && id === messageIdIn(record.payload)) has.set(record.channel, record.seq);
      }
      if ((records.at(-1)?.seq ?? 0) >= newest) break;
    }
  }
  return { position: renumberedFrom - 1, has };
}

/** Whether the record with this number is the last message that the client has on its channel. */
async function isAt(
  seq: number,
  ids: ReadonlyMap<number, string>,
  read: Numbering['read']
): Promise<boolean> {
  for await (const [record] of read(seq)) {
    if (record?.seq !== seq) return false;
    return ids.get(record.channel) === messageIdIn(record.payload);
  }
  return false;
}
