/** A range of a kernel's journal, for tools and for pages that restore output: as JSON, or the text of one execution. */
import type { JournalEntry, JournalPage } from '@tpulab/protocol';
import {
  channelNameOf,
  FROM_CLIENT,
  gapOf,
  gapText,
  JournalReader,
  type JournalRecord,
  RecordChannel
} from '../journal/index.js';
import { decodeV1, JSON_PARTS, PART } from '../jupyter/index.js';
import { contentOf, MessageReader } from './message-of-record.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

/** A page ends early at this size, so that one request cannot fill the memory. */
const MAX_PAGE_BYTES = 8 * 1024 * 1024;

interface JournalPageRequest {
  readonly from: number;
  /** Maximum number of entries. */
  readonly limit: number;
  /** The newest record that is known to have been written. */
  readonly lastSeq: number;
  /** The kernel has ended: nothing is written any more. */
  readonly isOver: boolean;
}

export async function readJournalPage(
  journalDir: string,
  { from, limit, lastSeq, isOver }: JournalPageRequest
): Promise<JournalPage> {
  const reader = new JournalReader(journalDir);
  const firstSeq = await reader.firstSeq();
  const entries: JournalEntry[] = [];
  let bytes = 0;
  let next = Math.max(from, firstSeq);
  page: for await (const batch of reader.readAcross(next, { newest: () => lastSeq, ended: isOver })) {
    for (const record of batch) {
      const isFull = entries.length >= limit || bytes + record.payload.length > MAX_PAGE_BYTES;
      if (entries.length > 0 && isFull) break page;
      bytes += record.payload.length;
      entries.push(entryOf(record));
      next = (record.missing?.toSeq ?? record.seq) + 1;
    }
  }
  return { entries, next, firstSeq, lastSeq };
}

/**
 * The printed output of an execution up to the record `until`: its streams, the text of its displays and its traceback, in
 * pieces.
 */
export async function* executionText(
  journalDir: string,
  { msgId, from, until }: { readonly msgId: string; readonly from?: number; readonly until: number }
): AsyncGenerator<string> {
  const reader = new JournalReader(journalDir);
  const messages = new MessageReader();
  const start = Math.max(from ?? 1, await reader.firstSeq());
  for await (const batch of reader.readAcross(start, { to: until })) {
    for (const record of batch) {
      const gap = gapOf(record);
      const message = gap === null ? messages.read(record) : null;
      if (gap !== null) yield gapText(gap);
      if (message?.parentId !== msgId || !message.onIopub) continue;
      const { text, data, traceback } = contentOf(message);
      const plain = (data as Record<string, unknown> | undefined)?.['text/plain'];
      if (typeof text === 'string') yield text;
      else if (Array.isArray(traceback)) yield `${traceback.join('\n')}\n`;
      else if (typeof plain === 'string' && message.msgType !== 'update_display_data') yield `${plain}\n`;
    }
  }
}

function entryOf({ seq, timeNs, channel, payload }: JournalRecord): JournalEntry {
  const base = {
    seq,
    time: new Date(Number(timeNs / 1_000_000n)).toISOString(),
    fromClient: (channel & FROM_CLIENT) !== 0
  };
  if ((channel & ~FROM_CLIENT) === RecordChannel.bridge) {
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
    channel: channelNameOf({ channel }),
    header: parse(parts[PART.header]),
    parent_header: parse(parts[PART.parentHeader]),
    metadata: parse(parts[PART.metadata]),
    content: parse(parts[PART.content]),
    buffers: parts.slice(JSON_PARTS).map(buffer => buffer.toString('base64'))
  };
}

/** A kernel may send invalid JSON; the rest of the page is still usable. */
function parse(part: Buffer | undefined): Record<string, unknown> | null {
  const value = jsonIn(part);
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
}
