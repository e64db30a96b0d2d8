/** The whole of an index, as it is kept in a file, and how much it holds. */
import type { Display, Execution, OutputWidget } from './execution.js';

export interface IndexLimits {
  readonly executions: number;
  readonly displays: number;
  readonly widgets: number;
}

export const INDEX_LIMITS: IndexLimits = { executions: 10_000, displays: 20_000, widgets: 1000 };

/** The whole state, for the index file. */
export interface IndexState {
  readonly throughSeq: number;
  readonly kernelSession: string | null;
  readonly restartSeq: number;
  readonly forgotten: number;
  readonly forgotDisplays: boolean;
  readonly executions: readonly Execution[];
  readonly displays: readonly Display[];
  readonly widgets: readonly OutputWidget[];
  readonly captures: readonly (readonly [string, readonly string[]])[];
}
