/** What a reader makes of records that are gone: a gap that says how many, which, and why, and where reading goes on. */
import { JournalDamagedError, JournalTrimmedError } from './journal-error.js';
import { type JournalRecord, type NumberedGap, RecordChannel } from './record.js';
import { readTrimNotes, type TrimCode } from './trim-notes.js';

const WHY: Readonly<Record<TrimCode, string>> = {
  journal_quota: 'the journal of this kernel reached its quota, so its oldest records were removed',
  journal_total_quota: 'the journals of all kernels reached their quota, so the oldest were removed',
  journal_retention: 'they were older than what is kept after the end of a kernel',
  journal_pruned: 'they were removed with "tpulab journal prune"'
};

/**
 * The gap behind an error of the reader, for somebody who wants to read from `from`; null for an error of another kind.
 * `newest` is the last record that is known to exist: where nothing after the damage can be read, everything up to it is
 * missing. `upTo` is the last record that is asked for.
 */
export async function explainMissing(
  dir: string,
  error: unknown,
  from: number,
  newest: number,
  upTo = Infinity
): Promise<NumberedGap | null> {
  if (error instanceof JournalDamagedError) {
    // The damage may lie after records that were read by somebody who asked for more than `from`.
    const first = Math.max(from, error.seq);
    const last = error.resumeSeq === null ? Math.max(newest, first) : error.resumeSeq - 1;
    return gap(first, Math.min(last, upTo), error.code, error.message);
  }
  if (!(error instanceof JournalTrimmedError)) {
    return null;
  }
  const to = Math.min(error.firstSeq - 1, upTo);
  const note = (await readTrimNotes(dir)).findLast(each => each.from <= to && each.to >= from);
  return note === undefined
    ? gap(from, to, error.code, `Records ${from} to ${to} are no longer stored.`)
    : gap(from, to, note.code, `Records ${from} to ${to} are no longer stored: ${WHY[note.code]}.`, note.at);
}

/** Stands in a stream of records, under the number of the first missing one, for all of them. */
export function recordOfGap(gap: NumberedGap): JournalRecord {
  return {
    seq: gap.fromSeq,
    timeNs: BigInt(Math.trunc(gap.to)) * 1_000_000n,
    channel: RecordChannel.bridge,
    payload: Buffer.from(JSON.stringify(gap)),
    missing: gap
  };
}

function gap(fromSeq: number, toSeq: number, code: string, reason: string, at = Date.now()): NumberedGap {
  return { type: 'gap', count: toSeq - fromSeq + 1, code, reason, from: at, to: at, fromSeq, toSeq };
}
