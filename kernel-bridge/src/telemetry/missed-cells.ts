/**
 * Cells and kernels that ended while no server ran: a file lists those that were running, and the kernel's journal contains
 * the end of its cell.
 */
import { readFile } from 'node:fs/promises';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { JournalReader, RecordChannel } from '../journal/index.js';
import { contentOf, decodeV1, ifMessage, parentOf, parseHeader, PART, v1Part } from '../jupyter/index.js';
import { jsonIn } from '@tpulab/platform/json-text.js';
import { writeForThisBootSync } from '@tpulab/platform/write-atomically.js';

/** A kernel that was running when the file was written, with its cell, if it ran one. */
const Watched = Type.Object({
  kernelId: Type.String(),
  specName: Type.String(),
  journalDir: Type.String(),
  cell: Type.Union([
    Type.Null(),
    Type.Object({ msgId: Type.String(), since: Type.Number(), seq: Type.Number() })
  ])
});
export type Watched = Static<typeof Watched>;

/** Limit of records that are read for one cell; a longer flood hides its end. */
const RECORDS_READ = 200_000;

/** Empty if there is no such file, or it was torn. */
export async function readWatched(file: string): Promise<Watched[]> {
  const value = jsonIn(await readFile(file).catch(() => null));
  return Array.isArray(value) ? value.filter(each => Value.Check(Watched, each)) : [];
}

/** A full disk only loses the notices at the next start. */
export function writeWatched(file: string, watched: readonly Watched[]): void {
  try {
    writeForThisBootSync(file, watched);
  } catch {
    // The next change is written again.
  }
}

/** The content of an `execute_reply` to this request; null for other records. */
export function replyTo(msgId: string, channel: number, payload: Uint8Array): Record<string, unknown> | null {
  if (channel !== RecordChannel.shell) return null;
  return ifMessage(() => {
    const part = Buffer.from(payload);
    if (parseHeader(v1Part(part, PART.header) ?? Buffer.alloc(0)).msg_type !== 'execute_reply') return null;
    const message = decodeV1(part);
    return parentOf(message)?.msg_id === msgId ? contentOf(message) : null;
  });
}

/** How a cell ended, and when, in Unix milliseconds; null while its journal does not contain it. */
export async function endOf({
  journalDir,
  cell
}: Watched): Promise<{ content: Record<string, unknown>; at: number } | null> {
  if (cell === null) return null;
  try {
    const { seq, msgId } = cell;
    for await (const batch of new JournalReader(journalDir).readAcross(seq, { to: seq + RECORDS_READ }))
      for (const { channel, payload, timeNs } of batch) {
        const content = replyTo(msgId, channel, payload);
        if (content) return { content, at: Number(timeNs / 1_000_000n) };
      }
  } catch {
    // The journal was removed with its kernel, or is damaged there.
  }
  return null;
}
