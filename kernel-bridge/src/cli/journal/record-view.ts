/** A journal record in forms for people and for programs. */
import { channelNameOf, FROM_CLIENT, gapOf, type JournalRecord, RecordChannel } from '../../journal/index.js';
import { JSON_PARTS, messageIn, PART } from '../../jupyter/index.js';
import { asObject, jsonIn } from '@tpulab/platform/json-text.js';

export type RecordSummary = ReturnType<typeof summarize>;

export function summarize(record: JournalRecord) {
  const gap = gapOf(record);
  const isOurs = record.channel === RecordChannel.bridge;
  const parts = isOurs ? [] : partsOf(record.payload);
  const header = asObject(jsonIn(parts[PART.header]));
  const parent = asObject(jsonIn(parts[PART.parentHeader]));
  return {
    seq: record.seq,
    /** ISO 8601 with milliseconds, by the clock of the keeper's machine. */
    time: timeOf(record),
    channel: channelNameOf(record),
    fromClient: (record.channel & FROM_CLIENT) !== 0,
    /** null if the record is not a readable message. */
    msgType: isOurs ? text(asObject(jsonIn(record.payload))['type']) : text(header['msg_type']),
    msgId: text(header['msg_id']),
    parentId: text(parent['msg_id']),
    bytes: record.payload.length,
    gap
  };
}

/** One line for a terminal: seq, time, channel, message type, parent, size. */
export function summaryLine({
  seq,
  time,
  channel,
  fromClient,
  msgType,
  parentId,
  bytes,
  gap
}: RecordSummary): string {
  const from = `${fromClient ? '>' : ' '}${channel}`;
  const line = `${String(seq).padStart(9)}  ${time}  ${from.padEnd(8)}  ${(msgType ?? '?').padEnd(20)}`;
  if (gap !== null) return `${line}  ${gap.count ?? 'unknown'} missing (${gap.code}): ${gap.reason}`;
  return `${line}  ${String(bytes).padStart(9)}  ${parentId ?? ''}`.trimEnd();
}

/**
 * One line of JSON with the whole record. The JSON of the kernel and its clients is copied unchanged, because parsing
 * and serialising it would change large numbers. An unreadable message is stored as `frame`, in base64.
 */
export function exportLine(record: JournalRecord): string {
  const base = {
    seq: record.seq,
    time: timeOf(record),
    timeNs: String(record.timeNs),
    channel: channelNameOf(record),
    fromClient: (record.channel & FROM_CLIENT) !== 0
  };
  const head = JSON.stringify(base).slice(0, -1);
  if (base.channel === 'bridge') {
    const content = jsonText(record.payload);
    return content === null ? withFrame(head, record) : `${head},"content":${content}}`;
  }
  const parts = partsOf(record.payload);
  const [header, parent, metadata, content] = parts.slice(0, JSON_PARTS).map(jsonText);
  if (header == null || parent == null || metadata == null || content == null) return withFrame(head, record);
  const buffers = parts.slice(JSON_PARTS).map(buffer => buffer.toString('base64'));
  return `${head},"header":${header},"parent_header":${parent},"metadata":${metadata},"content":${content},"buffers":${JSON.stringify(buffers)}}`;
}

function withFrame(head: string, { payload }: JournalRecord): string {
  return `${head},"frame":"${payload.toString('base64')}"}`;
}

export function timeOf({ timeNs }: JournalRecord): string {
  return new Date(Number(timeNs / 1_000_000n)).toISOString();
}

const partsOf = (payload: Buffer): readonly Buffer[] => messageIn(payload)?.parts ?? [];

/** The text unchanged, if it is JSON and fits on one line. */
function jsonText(bytes: Buffer): string | null {
  const raw = bytes.toString('utf8');
  const value = jsonIn(raw);
  if (value === undefined) return null;
  return /[\r\n]/.test(raw) ? JSON.stringify(value) : raw;
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
