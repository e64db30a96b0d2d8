/** Which execution belongs to which cell of a notebook, and what is to become of each cell. */
import type { CellExecution, CellOutputs, CodeCell } from '@tpulab/protocol';
import { codeHash } from '../../outputs/index.js';

/**
 * `changed`: the code of the cell is no longer what was run. `not-run`: nothing of it has been run by this kernel. `ambiguous`: its code
 * was run by a client that names no cells, and other cells have the same code.
 */
export type Placement = 'written' | 'changed' | 'not-run' | 'ambiguous';

export interface PlacedCell {
  readonly cell: CodeCell;
  readonly placement: Placement;
  readonly execution: CellExecution | null;
}

export interface PlacingOptions {
  /** Also into cells whose code has changed. */
  readonly force: boolean;
  /** Only these cells; null: all. */
  readonly cells: ReadonlySet<string> | null;
}

export function placeOutputs(
  cells: readonly CodeCell[],
  executions: readonly CellExecution[],
  { force, cells: wanted }: PlacingOptions
): PlacedCell[] {
  // What was never begun has put nothing out: what an earlier run put out stays.
  const begun = executions.filter(({ startedAt }) => startedAt !== null);
  const byCell = new Map(begun.flatMap(each => (each.cellId === null ? [] : [[each.cellId, each] as const])));
  const byCode = executionsByCode(begun);
  const ambiguous = repeated(cells.map(({ source }) => source));
  return cells
    .filter(({ id }) => wanted === null || wanted.has(id))
    .map(cell => {
      // Clients that name no cell: the code itself decides, when it is there once.
      const alike = byCode.get(codeHash(cell.source));
      const isAmbiguous = ambiguous.has(cell.source);
      const execution = byCell.get(cell.id) ?? (isAmbiguous ? undefined : alike) ?? null;
      if (execution === null)
        return { cell, execution, placement: isAmbiguous && alike ? 'ambiguous' : 'not-run' };
      const isSame = execution.codeHash === codeHash(cell.source);
      return { cell, execution, placement: isSame || force ? 'written' : 'changed' };
    });
}

export function outputsOf(placed: readonly PlacedCell[]): CellOutputs[] {
  return placed.flatMap(({ cell, execution, placement }) =>
    execution === null || placement !== 'written'
      ? []
      : {
          index: cell.index,
          outputs: execution.outputs.map(({ output }) => output),
          executionCount: execution.executionCount
        }
  );
}

/** The newest execution of each code, of those that name no cell. */
function executionsByCode(executions: readonly CellExecution[]): ReadonlyMap<string, CellExecution> {
  return new Map(
    executions.flatMap(each =>
      each.cellId === null && each.codeHash !== null ? [[each.codeHash, each] as const] : []
    )
  );
}

function repeated(values: readonly string[]): ReadonlySet<string> {
  const seen = new Set<string>();
  return new Set(values.filter(value => seen.size === seen.add(value).size));
}
