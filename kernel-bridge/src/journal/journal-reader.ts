/**
 * Reads a journal by seq, while its writer may be appending in another process. Nothing is locked: an incomplete record
 * at the end of the last segment does not exist yet.
 *
 * One reader can serve any number of simultaneous reads; it keeps no file open between them, and memory stays constant because
 * the next chunk is read only when the last batch has been consumed.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { JournalDamagedError, JournalTrimmedError } from './journal-error.js';
import { decodeRecord } from './record-codec.js';
import { type JournalRecord, type NumberedGap, RecordChannel } from './record.js';
import { listSegments, SEGMENT_HEADER_BYTES, segmentHeaderFault, type SegmentName } from './segment-file.js';
import { type NeededBytes, type ScanEnd, type ScannedChunk, scanSegment } from './segment-scan.js';
import { isEntryTrue, readStoredIndex, SparseIndex } from './stored-index.js';
import { readTrimNotes, seqAfterTrimmed, type TrimCode } from './journal-trim.js';

export interface ReadOptions {
  /** The last record requested; without it, all records. */
  readonly to?: number;
  readonly signal?: AbortSignal;
  /** Of a large record, only this is read and returned (`isAbridged`), and its checksum is not checked. */
  readonly needed?: NeededBytes;
}

interface ReadAcrossOptions extends ReadOptions {
  /** The last record known to have been written. Without it, the end of the files counts. */
  readonly newest?: () => number;
  /** Writing has ended: damage at the end is a gap of at least one record, unless it was already reported to the caller. */
  readonly ended?: boolean;
}

export class JournalReader {
  readonly #indexes = new Map<number, SparseIndex>();

  constructor(private readonly dir: string) {}

  /** The seq of the first stored record, or of the first record to be written if there is none. */
  async firstSeq(): Promise<number> {
    const [first] = await listSegments(this.dir);
    return first?.firstSeq ?? (await seqAfterTrimmed(this.dir));
  }

  /**
   * The seq of the newest whole record, 0 when there is none. Scans at most the part of the last segment that is not
   * indexed.
   */
  async lastSeq(): Promise<number> {
    const last = (await listSegments(this.dir)).at(-1);
    return last === undefined ? 0 : this.#endOf(last);
  }

  async #endOf(last: SegmentName): Promise<number> {
    const scan = this.#scan(last, Infinity, () => 0);
    let step = await scan.next();
    while (step.done !== true) step = await scan.next();
    return step.value.seq - 1;
  }

  /** Records from `from` on, in order, one by one. For much data `readBatches` costs less. */
  async *read(from: number, options: ReadOptions = {}): AsyncGenerator<JournalRecord, void, void> {
    for await (const batch of this.readBatches(from, options)) {
      yield* batch;
    }
  }

  /**
   * Like `readBatches`, but continues after lost records: a gap record in its own batch replaces each range of them, under
   * the number of the first (`JournalRecord.missing`). Every reader of a journal that may be damaged uses this, so that
   * nothing is skipped silently and each gap is reported once. Damage after which nothing can be read is thrown without
   * `newest` and `ended`, because the number of missing records is unknown.
   */
  async *readAcross(
    from: number,
    { newest, ended = false, ...options }: ReadAcrossOptions = {}
  ): AsyncGenerator<JournalRecord[], void, void> {
    const to = options.to ?? Infinity;
    let next = Math.max(from, 1);
    while (next <= to) {
      // Read before the records: records written meanwhile come after the apparent damage, and belong to no gap.
      const announced = Math.min(newest?.() ?? 0, to);
      let error: unknown;
      try {
        for await (const batch of this.readBatches(next, options)) {
          next += batch.length;
          yield batch;
        }
        if (next > announced) return;
        error = new JournalDamagedError('the journal', 0, next, null, 'the files end before it');
      } catch (failure) {
        error = failure;
      }
      const damage = error instanceof JournalDamagedError && error.resumeSeq === null ? error : null;
      if (damage !== null && newest === undefined && !ended) throw error;
      // No announced record is missing yet. At the damaged end of a journal that no longer grows, one missing record is
      // reported, once.
      if (damage !== null && announced < next && !(ended && next <= damage.seq)) return;
      const gap = await explainMissing(this.dir, error, next, announced, to);
      if (gap === null) throw error;
      next = gap.toSeq + 1;
      yield [recordOfGap(gap)];
      if (damage !== null) {
        return; // The next segment will show where records continue.
      }
    }
  }

  /**
   * Records from `from` on, in order and without holes, as many at a time as fit into one chunk of the file. Ends at `to`
   * or at the current end of the journal. Payloads are views into the chunk. Throws `JournalTrimmedError` when `from` is
   * older than the stored records, and `JournalDamagedError` after the last record before the damage.
   */
  async *readBatches(
    from: number,
    { to = Infinity, signal, needed }: ReadOptions = {}
  ): AsyncGenerator<JournalRecord[], void, void> {
    let next = Math.max(from, 1);
    while (next <= to) {
      const segments = await listSegments(this.dir);
      const index = segments.findLastIndex(segment => segment.firstSeq <= next);
      const segment = segments[index];
      if (segment === undefined) {
        const firstSeq = await this.firstSeq();
        if (firstSeq <= next) {
          return; // no record exists yet
        }
        throw new JournalTrimmedError(next, firstSeq);
      }
      this.#forgetBefore(segments[0]?.firstSeq ?? 0);
      const scan = this.#scan(segment, next, needed);
      let step: IteratorResult<ScannedChunk, ScanEnd>;
      try {
        step = await scan.next();
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
          continue; // Trimmed since the segments were listed.
        }
        throw error;
      }
      try {
        for (; step.done !== true; step = await scan.next()) {
          signal?.throwIfAborted();
          const batch = recordsBetween(step.value, next, to);
          if (batch.length > 0) {
            next += batch.length;
            yield batch;
          }
          if (next > to) return;
        }
      } finally {
        await scan.return(SCAN_ABANDONED);
      }
      const following = segments[index + 1];
      if (following !== undefined && step.value.seq >= following.firstSeq) {
        // Complete, or torn after its last record by a writer that could not cut it and continued in a new segment.
        next = Math.max(next, following.firstSeq);
        continue;
      }
      if (step.value.kind === 'damaged' || following !== undefined) {
        const { offset, seq } = step.value;
        const why =
          step.value.kind === 'damaged' ? step.value.why : 'the segment ends before the next one begins';
        throw new JournalDamagedError(segment.file, offset, seq, following?.firstSeq ?? null, why);
      }
      if (!(await this.#continuesAfter(segment))) return;
    }
  }

  /** The writer's stored index, when it is valid for this position; otherwise an index that grows while reading. */
  async #load(handle: FileHandle, segment: SegmentName, from: number): Promise<SparseIndex> {
    const first = { seq: segment.firstSeq, offset: SEGMENT_HEADER_BYTES };
    const stored = new SparseIndex(first, await readStoredIndex(this.dir, segment.firstSeq));
    const start = stored.floor(from);
    const isRight = start.offset === first.offset || (await isEntryTrue(handle, start));
    const index = isRight ? stored : new SparseIndex(first);
    this.#indexes.set(segment.firstSeq, index);
    return index;
  }

  #forgetBefore(firstSeq: number): void {
    for (const seq of this.#indexes.keys()) if (seq < firstSeq) this.#indexes.delete(seq);
  }

  /** Whether the writer began another segment in the meantime. */
  async #continuesAfter(segment: SegmentName): Promise<boolean> {
    const last = (await listSegments(this.dir)).at(-1);
    return last !== undefined && last.firstSeq > segment.firstSeq;
  }

  async *#scan(
    segment: SegmentName,
    from: number,
    needed?: NeededBytes
  ): AsyncGenerator<ScannedChunk, ScanEnd, void> {
    const handle = await open(join(this.dir, segment.file), 'r');
    try {
      let index = this.#indexes.get(segment.firstSeq);
      if (index === undefined) {
        const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
        const { bytesRead } = await handle.read(header, 0, SEGMENT_HEADER_BYTES, 0);
        if (bytesRead < SEGMENT_HEADER_BYTES) {
          // The writer creates the file and writes the header in two steps.
          return { kind: 'end', offset: 0, seq: segment.firstSeq, rest: bytesRead };
        }
        const why = segmentHeaderFault(header, segment.firstSeq);
        if (why !== null) return { kind: 'damaged', offset: 0, seq: segment.firstSeq, why };
        index = await this.#load(handle, segment, from);
      }
      const start = index.floor(from);
      let scan = scanSegment(handle, { ...start, verifyFrom: from, needed });
      let step = await scan.next();
      if (step.done === true && start.offset > SEGMENT_HEADER_BYTES) {
        // A record was here before. A repair has cut the segment before it, and a writer may have continued: scan it again.
        index = new SparseIndex({ seq: segment.firstSeq, offset: SEGMENT_HEADER_BYTES });
        this.#indexes.set(segment.firstSeq, index);
        scan = scanSegment(handle, { ...index.floor(from), verifyFrom: from, needed });
        step = await scan.next();
      }
      for (; step.done !== true; step = await scan.next()) {
        index.add({ seq: step.value.firstSeq, offset: step.value.fileOffset });
        yield step.value;
      }
      return step.value;
    } finally {
      await handle.close();
    }
  }
}

/** The end of an abandoned scan. */
const SCAN_ABANDONED: ScanEnd = { kind: 'end', offset: 0, seq: 0, rest: 0 };

function recordsBetween(chunk: ScannedChunk, from: number, to: number): JournalRecord[] {
  const records: JournalRecord[] = [];
  const first = Math.max(from - chunk.firstSeq, 0);
  const end = Math.min(to - chunk.firstSeq + 1, chunk.bounds.length - 1);
  for (let index = first; index < end; index++) {
    const record = decodeRecord(chunk.bytes, chunk.bounds[index] ?? 0, chunk.bounds[index + 1] ?? 0);
    records.push(chunk.isAbridged ? { ...record, isAbridged: true } : record);
  }
  return records;
}

const WHY: Readonly<Record<TrimCode, string>> = {
  journal_quota: 'the journal of this kernel reached its quota, so its oldest records were removed',
  journal_total_quota: 'the journals of all kernels reached their quota, so the oldest were removed',
  journal_retention: 'they were older than what is kept after the end of a kernel',
  journal_pruned: 'they were removed with "tpulab journal prune"'
};

/**
 * The gap that explains an error of a read from `from`; null for an error of another kind. `newest` is the last record
 * known to exist: if nothing after the damage can be read, everything up to it is missing. `upTo` is the last requested
 * record.
 */
async function explainMissing(
  dir: string,
  error: unknown,
  from: number,
  newest: number,
  upTo = Infinity
): Promise<NumberedGap | null> {
  if (error instanceof JournalDamagedError) {
    // The damage may follow records that another caller read, from before `from`.
    const first = Math.max(from, error.seq);
    const last = error.resumeSeq === null ? Math.max(newest, first) : error.resumeSeq - 1;
    return gap(first, Math.min(last, upTo), error.code, error.message);
  }
  if (!(error instanceof JournalTrimmedError)) return null;
  const to = Math.min(error.firstSeq - 1, upTo);
  const note = (await readTrimNotes(dir)).findLast(each => each.from <= to && each.to >= from);
  return note === undefined
    ? gap(from, to, error.code, `Records ${from} to ${to} are no longer stored.`)
    : gap(from, to, note.code, `Records ${from} to ${to} are no longer stored: ${WHY[note.code]}.`, note.at);
}

/** Replaces missing records in a stream, under the number of the first of them. */
function recordOfGap(gap: NumberedGap): JournalRecord {
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
