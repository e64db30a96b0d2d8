/** Records of a journal in order, with a gap record in the place of those that are gone. */
import {
  explainMissing,
  JournalDamagedError,
  type JournalReader,
  type JournalRecord,
  recordOfGap
} from '../journal/index.js';

export interface Stretch {
  readonly reader: JournalReader;
  readonly dir: string;
  readonly from: number;
  readonly to: number;
  readonly signal?: AbortSignal | undefined;
}

/** Batches of records from `from` to `to`, or to where the journal ends now. */
export async function* readStretch(stretch: Stretch): AsyncGenerator<readonly JournalRecord[], void, void> {
  const { reader, dir, to, signal } = stretch;
  let next = Math.max(stretch.from, 1);
  while (next <= to) {
    try {
      const options = signal === undefined ? { to } : { to, signal };
      for await (const batch of reader.readBatches(next, options)) {
        next = (batch.at(-1)?.seq ?? next) + 1;
        yield batch;
      }
      return;
    } catch (error) {
      const gap = await explainMissing(dir, error, next, Number.isFinite(to) ? to : next);
      if (gap === null) throw error;
      yield [recordOfGap(gap)];
      if (error instanceof JournalDamagedError && error.resumeSeq === null) return;
      next = gap.toSeq + 1;
    }
  }
}
