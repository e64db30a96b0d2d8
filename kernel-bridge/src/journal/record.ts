/** One journal record, decoded. On disk: docs/journal.md. */
export interface JournalRecord {
  /** Position in the kernel's journal, from 1, without holes. */
  readonly seq: number;
  /** Unix time in nanoseconds at which the keeper took the message. */
  readonly timeNs: bigint;
  /** One of `RecordChannel`, with `FROM_CLIENT` added for what a client sent to the kernel. */
  readonly channel: number;
  /** The v1 WebSocket frame (channel name first), or JSON for `RecordChannel.bridge`. */
  readonly payload: Buffer;
  /** The payload is not all of it, but a message without what nobody needed to know. Never so when read from the journal. */
  readonly isAbridged?: true;
}

export const RecordChannel = { shell: 0, control: 1, stdin: 2, iopub: 3, bridge: 15 } as const;

/** Bit of `JournalRecord.channel`: the message went from a client to the kernel. */
export const FROM_CLIENT = 0x80;

/**
 * Payload (JSON) of a `RecordChannel.bridge` record: messages that are missing, and why. Such a record stands in the journal
 * where messages could not be written, and a reader makes one where records are gone that once had numbers.
 */
export interface GapRecord {
  readonly type: 'gap';
  /** How many messages are missing, all of them before this record; null when nobody can know. */
  readonly count: number | null;
  /** Stable code of the failure, for example `journal_disk_full`. */
  readonly code: string;
  /** One sentence for people. */
  readonly reason: string;
  /** Unix milliseconds of the first and the last missing message, as far as known; else when they were missed. */
  readonly from: number;
  readonly to: number;
  /** The missing records, where they had numbers. Reading goes on after `toSeq`. */
  readonly fromSeq?: number;
  readonly toSeq?: number;
}

/** The gap that a record tells of; null for any other record. */
export function gapOf({ channel, payload }: Pick<JournalRecord, 'channel' | 'payload'>): GapRecord | null {
  if (channel !== RecordChannel.bridge) {
    return null;
  }
  try {
    const value = JSON.parse(payload.toString('utf8')) as Partial<GapRecord> | null;
    return value?.type === 'gap' && typeof value.reason === 'string' ? (value as GapRecord) : null;
  } catch {
    return null;
  }
}
