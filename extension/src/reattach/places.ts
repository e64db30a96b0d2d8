/**
 * The cell of each execution in a notebook: the cell with its id. A notebook before nbformat 4.5 and a text notebook
 * (Jupytext) store no ids, so each page gives its cells new ones; there the code decides, if it occurs in the notebook once.
 */
import type { CellExecution } from '@tpulab/protocol';
import { sha256Hex } from '../platform/sha256.js';
import type { ICodeCell, INotebook } from './notebook.js';

export interface IPlace<T> {
  readonly of: T;
  /** Undefined: the notebook has no such cell, or has more than one. */
  readonly cell: ICodeCell | undefined;
  /** Several cells have this code, and nothing distinguishes them. */
  readonly isAmbiguous: boolean;
}

/** One place for each execution that is not replaced by a later run of the same cell; in the given order. */
export function placesOf<T extends { readonly execution: CellExecution }>(
  executions: readonly T[],
  notebook: INotebook
): IPlace<T>[] {
  const cells = notebook.codeCells();
  const byId = executions.map(of => {
    const { cellId } = of.execution;
    return { of, cell: cellId === null ? undefined : cells.get(cellId), isAmbiguous: false };
  });
  return notebook.keepsCellIds ? byId : placedByCode(byId, [...cells.values()]);
}

function placedByCode<T extends { readonly execution: CellExecution }>(
  places: readonly IPlace<T>[],
  cells: readonly ICodeCell[]
): IPlace<T>[] {
  const byCode = new Map<string, ICodeCell[]>();
  for (const cell of cells) {
    const hash = sha256Hex(cell.read().source);
    byCode.set(hash, [...(byCode.get(hash) ?? []), cell]);
  }
  const found = places.map(place => {
    const { cellId, codeHash } = place.of.execution;
    const [cell, ...twins] = cellId === null || codeHash === null ? [] : (byCode.get(codeHash) ?? []);
    return place.cell !== undefined || cell === undefined
      ? place
      : { ...place, cell: twins.length > 0 ? undefined : cell, isAmbiguous: twins.length > 0 };
  });
  // The same cell had another id in each page that has run it.
  const newest = new Map<string, CellExecution>();
  for (const { of, cell } of found) {
    if (cell !== undefined) {
      const { id } = cell.read();
      const other = newest.get(id);
      newest.set(id, other !== undefined && isLater(other, of.execution) ? other : of.execution);
    }
  }
  return found.filter(({ of, cell }) => cell === undefined || newest.get(cell.read().id) === of.execution);
}

/** Runs of different kernels can be compared only by their times. */
function isLater(one: CellExecution, other: CellExecution): boolean {
  const difference = Date.parse(one.requestedAt) - Date.parse(other.requestedAt);
  return difference > 0 || (difference === 0 && one.requestSeq > other.requestSeq);
}
