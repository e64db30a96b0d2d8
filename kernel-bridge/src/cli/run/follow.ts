/** What following a run takes. */
import type { BridgeCalls } from './bridge-calls.js';
import type { RunFile, RunRecord } from './run-record.js';

export interface Follow {
  readonly calls: BridgeCalls;
  readonly file: RunFile;
  readonly record: RunRecord;
  readonly signal: AbortSignal;
  /** A line for people. */
  readonly tell: (text: string) => void;
  /** Between two starts while a host of a slice is away. Default 30 s. */
  readonly awayLookMs?: number;
}
