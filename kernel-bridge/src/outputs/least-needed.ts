/** Which executions an index can do without. */
import { type Execution, isOpen } from './execution.js';

/** First what no notebook shows any more, then the oldest; never what still runs, unless all do. */
export function leastNeeded(executions: readonly Execution[], count: number): Execution[] {
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
