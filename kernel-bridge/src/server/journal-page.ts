/** A stretch of a kernel's journal as JSON, for tools and for pages that place output again. */
import { type Static, Type } from '@sinclair/typebox';
import { FROM_CLIENT, JournalReader, type JournalRecord, JournalTrimmedError } from '../journal/index.js';
import { decodeV1, JSON_PARTS, PART } from '../wire/index.js';

const JsonObject = Type.Record(Type.String(), Type.Unknown());

export const JournalEntry = Type.Object({
  seq: Type.Integer({ minimum: 1 }),
  time: Type.String({ format: 'date-time' }),
  channel: Type.String({ description: 'shell, control, stdin, iopub, or bridge' }),
  fromClient: Type.Boolean(),
  header: Type.Union([JsonObject, Type.Null()]),
  parent_header: Type.Union([JsonObject, Type.Null()]),
  metadata: Type.Union([JsonObject, Type.Null()]),
  content: Type.Union([JsonObject, Type.Null()]),
  buffers: Type.Array(Type.String({ description: 'base64' }))
});
export type JournalEntry = Static<typeof JournalEntry>;

export const JournalPage = Type.Object({
  entries: Type.Array(JournalEntry),
  next: Type.Integer({ description: '`from` of the page that follows' }),
  firstSeq: Type.Integer({ description: 'the oldest record that is kept' }),
  lastSeq: Type.Integer({ description: 'the newest record of the kernel' })
});
export type JournalPage = Static<typeof JournalPage>;

/** A page ends early at this size, so that one request cannot fill the memory. */
const MAX_PAGE_BYTES = 8 * 1024 * 1024;

export async function readJournalPage(
  journalDir: string,
  { from, limit, lastSeq }: { from: number; limit: number; lastSeq: number }
): Promise<JournalPage> {
  const reader = new JournalReader(journalDir);
  const firstSeq = await reader.firstSeq();
  const entries: JournalEntry[] = [];
  let bytes = 0;
  let next = Math.max(from, firstSeq);
  try {
    for await (const record of reader.read(next, { to: next + limit - 1 })) {
      if (entries.length > 0 && bytes + record.payload.length > MAX_PAGE_BYTES) break;
      bytes += record.payload.length;
      entries.push(entryOf(record));
      next = record.seq + 1;
    }
  } catch (error) {
    // Trimmed between the look at its beginning and the reading: what has been read is still right.
    if (!(error instanceof JournalTrimmedError)) throw error;
  }
  return { entries, next, firstSeq, lastSeq };
}

function entryOf({ seq, timeNs, channel, payload }: JournalRecord): JournalEntry {
  const base = {
    seq,
    time: new Date(Number(timeNs / 1_000_000n)).toISOString(),
    fromClient: (channel & FROM_CLIENT) !== 0
  };
  const name = CHANNELS[channel & ~FROM_CLIENT];
  if (name === undefined) {
    const content = parse(payload);
    return {
      ...base,
      channel: 'bridge',
      header: null,
      parent_header: null,
      metadata: null,
      content,
      buffers: []
    };
  }
  const { parts } = decodeV1(payload);
  return {
    ...base,
    channel: name,
    header: parse(parts[PART.header]),
    parent_header: parse(parts[PART.parentHeader]),
    metadata: parse(parts[PART.metadata]),
    content: parse(parts[PART.content]),
    buffers: parts.slice(JSON_PARTS).map(buffer => buffer.toString('base64'))
  };
}

/** By `RecordChannel`. */
const CHANNELS: Readonly<Record<number, string>> = { 0: 'shell', 1: 'control', 2: 'stdin', 3: 'iopub' };

/** A kernel may send what is not JSON; the rest of the page is still of use. */
function parse(part: Buffer | undefined): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(part?.toString('utf8') ?? 'null');
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
