import { CodedError } from '@tpulab/platform/errors.js';

export type JournalErrorCode =
  | 'journal_closed'
  | 'journal_damaged'
  | 'journal_trimmed'
  | 'journal_version'
  | 'journal_write_failed'
  | 'journal_disk_full';

/** A failure of the journal's files. `cause` holds the system's error, if any. */
export class JournalError extends CodedError<JournalErrorCode> {}

/** A segment contains bytes that are not valid records. None of them are returned. */
export class JournalDamagedError extends JournalError {
  constructor(
    readonly segment: string,
    readonly offset: number,
    /** The first record that cannot be read. */
    readonly seq: number,
    /** Where reading may resume: the first record of the next segment, null when there is none. */
    readonly resumeSeq: number | null,
    why: string
  ) {
    const after =
      resumeSeq === null ? 'nothing after it can be read' : `reading can continue at ${resumeSeq}`;
    super('journal_damaged', `Record ${seq} in ${segment} at byte ${offset} is damaged (${why}); ${after}.`);
  }
}

/** The requested records are no longer stored. */
export class JournalTrimmedError extends JournalError {
  constructor(
    readonly requestedSeq: number,
    /** The oldest record that is still stored. */
    readonly firstSeq: number
  ) {
    super(
      'journal_trimmed',
      `Record ${requestedSeq} is no longer stored; the oldest one is ${firstSeq}. Read from there.`
    );
  }
}
