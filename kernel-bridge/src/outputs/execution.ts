/** What the index knows of one execution, one display and one Output widget. It is kept as JSON (index-file.ts). */
import { type Static, Type } from '@sinclair/typebox';
import { CellExecutionState, OutputGap } from '@tpulab/protocol';

const Seq = Type.Integer({ minimum: 0 });
const NullableString = Type.Union([Type.String(), Type.Null()]);
const NullableNumber = Type.Union([Type.Number(), Type.Null()]);

export const Execution = Type.Object({
  msgId: Type.String(),
  cellId: NullableString,
  codeHash: NullableString,
  state: CellExecutionState,
  executionCount: Type.Union([Type.Integer(), Type.Null()]),
  /** Unix milliseconds. */
  requestedAt: Type.Number(),
  startedAt: NullableNumber,
  finishedAt: NullableNumber,
  requestSeq: Seq,
  /** Its outputs lie between these two; what came before the first has been cleared. */
  startSeq: Seq,
  lastSeq: Seq,
  changedSeq: Seq,
  /** `clear_output(wait=True)` was the last thing that happened to its outputs. */
  clearPending: Type.Boolean(),
  /** A silent request that names no cell: no notebook shows it. */
  hidden: Type.Boolean(),
  gaps: Type.Array(OutputGap)
});
export type Execution = Static<typeof Execution>;

/** Where a display was shown, and the newest message that says what it shows. */
export const Display = Type.Object({ id: Type.String(), seq: Seq, shownBy: Type.Array(Type.String()) });
export type Display = Static<typeof Display>;

export const OutputWidget = Type.Object({
  commId: Type.String(),
  /** Where reading must begin so that the capture and all that is captured is seen. */
  startSeq: Seq,
  /** The message that began the capture that is going on, or the last one. */
  captureSeq: Seq,
  lastSeq: Seq,
  changedSeq: Seq,
  clearPending: Type.Boolean(),
  msgIds: Type.Array(Type.String())
});
export type OutputWidget = Static<typeof OutputWidget>;

/** A gap is shown to those who were waiting for more; how many of them are told apart is bounded. */
export const MAX_GAPS = 50;
export const MAX_CAPTURED = 32;

export function isOpen({ state }: Pick<Execution, 'state'>): boolean {
  return state === 'queued' || state === 'running';
}
