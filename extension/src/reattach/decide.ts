/**
 * The action for an execution recorded by the bridge, in a notebook that was loaded from its file.
 *
 * The file may be older than the execution (the page was closed), as old (saved afterwards), or different on
 * purpose: outputs that the user has cleared and saved must not come back. Outputs not certain to be missing are left alone.
 */
import { type CellExecution, FLOOD_MIME, type FloodNote } from '@tpulab/protocol';
import { sha256Hex } from '../platform/sha256.js';
import type { ICodeCell, ISaved, IShownCell } from './notebook.js';
import { isSameContent } from './same-content.js';

/**
 * `attach`: runs or waits; its outputs still arrive. `fill`: has finished, and the file lacks it. `follow`: has finished and is
 * shown, but a display in it may still be updated. `leave`: nothing to do. `changed`: the cell's code differs from the executed code.
 * `missing`: the cell is not in the notebook.
 */
export type Decision = 'attach' | 'fill' | 'follow' | 'leave' | 'changed' | 'missing';

export function decide(
  execution: CellExecution,
  cell: ICodeCell | undefined,
  saved: ISaved,
  kernelId: string
): Decision {
  const isOver = isFinished(execution);
  const isNews = !isOver || hasEndedSince(execution, saved, kernelId);
  if (cell === undefined) {
    return execution.cellId !== null && isNews && execution.outputs.length > 0 ? 'missing' : 'leave';
  }
  const isShown = cell.shownRun === undefined ? cell.isRunHere : cell.shownRun === execution.msgId;
  if (isShown || execution.codeHash === null) return 'leave';
  const shown = cell.read();
  if (sha256Hex(shown.source) !== execution.codeHash) {
    return isNews && execution.outputs.length > 0 ? 'changed' : 'leave';
  }
  if (!isOver) return 'attach';
  const hasSameCount = shown.executionCount === execution.executionCount;
  // Very long outputs are shown in part, in different words by the page and by the bridge's answer.
  const hasCut = execution.cutBytes > 0 && shown.outputs.length > 0;
  if (hasSameCount && hasCut && (!isNews || showsFlood(shown, execution))) return 'leave';
  if (hasSameCount && showsSame(shown, execution)) {
    return execution.outputs.some(({ displayId }) => displayId !== null) ? 'follow' : 'leave';
  }
  // A file that was saved in the middle of a run has outputs and no count.
  const isIncomplete = shown.executionCount === null && shown.outputs.length > 0;
  return isNews || isIncomplete || (hasSameCount && execution.executionCount !== null) ? 'fill' : 'leave';
}

export function isFinished({ state }: Pick<CellExecution, 'state'>): boolean {
  return state !== 'queued' && state !== 'running';
}

function hasEndedSince(execution: CellExecution, saved: ISaved, kernelId: string): boolean {
  if (saved.kernel === kernelId && saved.seq !== undefined) {
    return (execution.finishedSeq ?? execution.changedSeq) > saved.seq;
  }
  // An unrecorded end of a kernel has no time.
  const { requestedAt, startedAt, finishedAt } = execution;
  return saved.at === null || Date.parse(finishedAt ?? startedAt ?? requestedAt) > saved.at;
}

function showsFlood({ outputs }: IShownCell, { msgId }: CellExecution): boolean {
  return outputs.some(output => {
    const data = output['data'] as Record<string, Partial<FloodNote> | undefined> | undefined;
    return data?.[FLOOD_MIME]?.msgId === msgId;
  });
}

function showsSame(shown: IShownCell, execution: CellExecution): boolean {
  return (
    shown.outputs.length === execution.outputs.length &&
    execution.outputs.every(({ output }, index) => {
      const other = shown.outputs[index];
      return other !== undefined && isSameContent(output, other);
    })
  );
}
