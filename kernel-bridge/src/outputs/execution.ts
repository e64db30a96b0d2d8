/** Index entries of one execution, one display and one Output widget. They are stored as JSON (index-file.ts). */
import { createHash } from 'node:crypto';
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
  finishedSeq: Type.Optional(Seq),
  requestSeq: Seq,
  /** The outputs are between these two records; earlier ones have been cleared. */
  startSeq: Seq,
  lastSeq: Seq,
  changedSeq: Seq,
  /** `clear_output(wait=True)` was the last change to its outputs. */
  clearPending: Type.Boolean(),
  /** A silent request that names no cell, so no notebook shows it. */
  hidden: Type.Boolean(),
  gaps: Type.Array(OutputGap)
});
export type Execution = Static<typeof Execution>;

/** Where a display was shown, and the newest message with its content. `id`: as in `displayKeyOf`. */
export const Display = Type.Object({ id: Type.String(), seq: Seq, shownBy: Type.Array(Type.String()) });
export type Display = Static<typeof Display>;

export const OutputWidget = Type.Object({
  commId: Type.String(),
  /** Where reading must begin to include the capture and all captured output. */
  startSeq: Seq,
  /** The message that began the current capture, or the last one. */
  captureSeq: Seq,
  lastSeq: Seq,
  changedSeq: Seq,
  clearPending: Type.Boolean(),
  msgIds: Type.Array(Type.String())
});
export type OutputWidget = Static<typeof OutputWidget>;

/** Limit of distinct gaps per execution. A gap is shown in executions that were waiting for more output. */
export const MAX_GAPS = 50;
const MAX_CAPTURED = 32;

export function isOpen({ state }: Pick<Execution, 'state'>): boolean {
  return state === 'queued' || state === 'running';
}

type Shown = Pick<Execution, 'startSeq' | 'lastSeq' | 'changedSeq' | 'clearPending'>;

/** `startSeq`: where reading may begin when all earlier output has been cleared. */
export function shown(target: Shown, startSeq: number, seq: number): void {
  if (target.clearPending) target.startSeq = startSeq;
  target.clearPending = false;
  target.lastSeq = target.changedSeq = seq;
}

export function cleared(target: Shown, wait: boolean, startSeq: number, seq: number): void {
  target.clearPending = wait;
  if (!wait) target.startSeq = startSeq;
  target.lastSeq = target.changedSeq = seq;
}

/** The widget has captured output of this execution. */
export function capture(widget: OutputWidget, msgId: string): void {
  if (widget.msgIds.includes(msgId)) return;
  widget.msgIds.push(msgId);
  if (widget.msgIds.length > MAX_CAPTURED) widget.msgIds.shift();
}

/** The `codeHash` of an execution, whatever its line ends: pages change those of Windows. */
export function codeHash(code: string): string {
  return createHash('sha256').update(code.replaceAll('\r\n', '\n'), 'utf8').digest('hex');
}

/** The executions to drop: first those that no notebook shows any more, then the oldest; running ones only if all run. */
export function executionsToDrop(executions: readonly Execution[], count: number): Execution[] {
  const newest = new Map(executions.map(({ cellId, msgId }) => [cellId, msgId]));
  const rank = (each: Execution): number => {
    if (isOpen(each)) return 3;
    if (each.hidden) return 0;
    return each.cellId !== null && newest.get(each.cellId) !== each.msgId ? 1 : 2;
  };
  return executions
    .map(each => ({ each, rank: rank(each) }))
    .sort((a, b) => a.rank - b.rank || a.each.requestSeq - b.each.requestSeq)
    .slice(0, count)
    .map(({ each }) => each);
}
