/** How much kernel output is stored, and for how long. */

export interface JournalLimits {
  /** Bytes of one kernel's journal. Above this, its oldest records are removed. */
  readonly kernelBytes: number;
  /** Bytes of all journals of a state folder. Above this, journals of ended kernels are removed first. */
  readonly totalBytes: number;
  /** Milliseconds for which a journal is stored after its kernel has ended. */
  readonly retentionMs: number;
}

const GIB = 1024 ** 3;
const DAY_MS = 24 * 60 * 60 * 1000;

export const JOURNAL_LIMITS: JournalLimits = {
  kernelBytes: 2 * GIB,
  totalBytes: 20 * GIB,
  retentionMs: 14 * DAY_MS
};

/** A smaller quota would not fit a few large outputs. */
export const MIN_KERNEL_BYTES = 1024 ** 2;

const SEGMENT_BYTES = 64 * 1024 ** 2;

/** A quota is enforced by removing whole segments: there are at least eight, so that most of it is in use. */
export function segmentBytesFor(kernelBytes: number): number {
  return Math.min(SEGMENT_BYTES, Math.floor(kernelBytes / 8));
}
