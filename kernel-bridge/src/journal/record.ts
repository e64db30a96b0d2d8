import { jsonIn } from '@tpulab/platform/json-text.js';

/** One journal record, decoded. On disk: docs/journal.md. */
export interface JournalRecord {
  /** Position in the kernel's journal, from 1, without holes. */
  readonly seq: number;
  /** Unix time in nanoseconds at which the keeper received the message. */
  readonly timeNs: bigint;
  /** One of `RecordChannel`, with `FROM_CLIENT` added for a message from a client to the kernel. */
  readonly channel: number;
  /** The v1 WebSocket frame (channel name first), or JSON for `RecordChannel.bridge`. */
  readonly payload: Buffer;
  /**
   * The payload is incomplete: a message without the parts that no client needed, or one of which less was requested
   * (`ReadOptions.needed`).
   */
  readonly isAbridged?: true;
  /** Not a record of the journal, but a gap that `readAcross` created in place of lost records. */
  readonly missing?: NumberedGap;
}

export const RecordChannel = { shell: 0, control: 1, stdin: 2, iopub: 3, bridge: 15 } as const;

const CHANNEL_NAMES = new Map<number, string>(
  Object.entries(RecordChannel).map(([name, number]) => [number, name])
);

/** `shell`, `iopub` and so on; `bridge` for notes of the bridge itself. */
export function channelNameOf({ channel }: Pick<JournalRecord, 'channel'>): string {
  const number = channel & ~FROM_CLIENT;
  return CHANNEL_NAMES.get(number) ?? `channel-${number}`;
}

/** Bit of `JournalRecord.channel`: the message went from a client to the kernel. */
export const FROM_CLIENT = 0x80;

/**
 * Payload (JSON) of a `RecordChannel.bridge` record: messages that are missing, and why. The journal has such a record
 * where messages could not be written, and a reader creates one where numbered records were lost.
 */
export interface GapRecord {
  readonly type: 'gap';
  /** How many messages are missing, all of them before this record; null when the number is unknown. */
  readonly count: number | null;
  /** Stable code of the failure, for example `journal_disk_full`. */
  readonly code: string;
  /** One sentence, shown to users. */
  readonly reason: string;
  /**
   * Unix milliseconds of the first and the last missing message, as far as known; otherwise of the time when they were
   * missed.
   */
  readonly from: number;
  readonly to: number;
  /** The missing records, if they had numbers. Reading continues after `toSeq`. */
  readonly fromSeq?: number;
  readonly toSeq?: number;
}

export type NumberedGap = GapRecord & { readonly fromSeq: number; readonly toSeq: number };

/**
 * Payload (JSON) of a `RecordChannel.bridge` record: a restart was requested. Earlier requests without an
 * answer get none, unless the process still answers while it ends.
 */
export interface RestartRecord {
  readonly type: 'restart';
  /** Shown to users. */
  readonly reason: string;
}

/** The gap that a record reports; null for any other record. */
export function gapOf(record: Pick<JournalRecord, 'channel' | 'payload'>): GapRecord | null {
  const note = noteOf(record);
  return note?.type === 'gap' && typeof note.reason === 'string' ? (note as GapRecord) : null;
}

/** The text that users see at the place of a gap. */
export function gapText({ count, reason }: Pick<GapRecord, 'count' | 'reason'>): string {
  const missing =
    count === null
      ? 'An unknown number of messages is'
      : count === 1
        ? '1 message is'
        : `${count} messages are`;
  return `[tpulab] ${missing} missing here. ${reason}\n`;
}

export function isRestart(record: Pick<JournalRecord, 'channel' | 'payload'>): boolean {
  return noteOf(record)?.type === 'restart';
}

/** A note of the bridge itself; null for a message. */
function noteOf({
  channel,
  payload
}: Pick<JournalRecord, 'channel' | 'payload'>): Partial<GapRecord | RestartRecord> | null {
  if (channel !== RecordChannel.bridge) return null;
  return jsonIn(payload) ?? null;
}
