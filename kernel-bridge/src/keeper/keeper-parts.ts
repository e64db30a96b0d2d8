/** What a `KernelKeeper` is made of, and whom it tells. */
import type { JournalError } from '../journal/journal-error.js';
import type { StoredRecord, WrittenBatch } from '../journal/record-batch.js';
import type { ConnectionInfo } from './connection-file.js';
import type { LaunchDescription } from '../keeper-protocol/contract.js';
import type { KernelFiles } from './kernel-process.js';
import type { KeeperLog } from './keeper-log.js';

export interface KeeperListener {
  /** Records are in the file. */
  written(batch: WrittenBatch): void;
  /** The same of a large one. */
  stored(record: StoredRecord): void;
  /** Something in `snapshot` other than the last activity and the last record has changed. */
  changed(): void;
  journalFault(fault: JournalError | null): void;
  /** Another process is the kernel now. */
  processChanged(pid: number | null): void;
}

/** A kernel process whose keeper has ended. */
export interface Orphan {
  readonly pid: number;
  /** Its `processStart`. */
  readonly start: string;
}

export interface KeeperParts {
  readonly kernelDir: string;
  readonly launch: LaunchDescription;
  readonly connection: ConnectionInfo;
  readonly files: KernelFiles;
  readonly journalDir: string;
  readonly listener: KeeperListener;
  readonly log: KeeperLog;
}
