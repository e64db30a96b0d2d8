/** Whether the hosts of a slice were lost, as shown by the cells of a notebook. */

export interface IRunCell {
  readonly id: string;
  readonly executionCount: number | null;
  /** The error that its outputs end with. */
  readonly error: { readonly name: string; readonly value: string } | null;
}

export interface ILostGroup {
  readonly cellId: string;
  readonly executionCount: number | null;
  /** The first sentence of the error. */
  readonly reason: string;
}

/** After these the kernel runs no cell before it is restarted. */
const GROUP_HAS_ENDED = new Set(['HostLostError', 'GroupEndedError', 'SliceStartError', 'SliceError']);

/** Null when the cell that ran last did not end with the loss of a host. */
export function lostGroup(cells: readonly IRunCell[]): ILostGroup | null {
  const last = cells.reduce<IRunCell | null>(
    (newest, cell) => ((cell.executionCount ?? -1) > (newest?.executionCount ?? -1) ? cell : newest),
    null
  );
  if (!last?.error || !GROUP_HAS_ENDED.has(last.error.name)) {
    return null;
  }
  const [reason = ''] = last.error.value.split(/\.(?:\s|$)/, 1);
  return { cellId: last.id, executionCount: last.executionCount, reason };
}
