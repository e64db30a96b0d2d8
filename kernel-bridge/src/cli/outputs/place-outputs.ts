/** Matches executions to the cells of a notebook, and decides what happens to each cell. */
import {
  type CapturedOutputs,
  type CellExecution,
  type CellOutputs,
  type CodeCell,
  type NotebookOutput,
  valueAt,
  withValue
} from '@tpulab/protocol';
import { codeHash } from '../../outputs/index.js';

/**
 * `changed`: the code of the cell differs from the executed code. `not-run`: this kernel has not run the cell. `ambiguous`: a
 * client that names no cells ran its code, and other cells have the same code.
 */
type Placement = 'written' | 'changed' | 'not-run' | 'ambiguous';

export interface PlacedCell {
  readonly cell: CodeCell;
  readonly placement: Placement;
  readonly execution: CellExecution | null;
}

interface PlacingOptions {
  /** Whether to write into cells whose code has changed, too. */
  readonly force: boolean;
  /** Only these cells; null: all. */
  readonly cells: ReadonlySet<string> | null;
}

export function placeOutputs(
  cells: readonly CodeCell[],
  executions: readonly CellExecution[],
  { force, cells: selected }: PlacingOptions
): PlacedCell[] {
  // A cell that never started has no outputs: the outputs of an earlier run stay.
  const begun = executions.filter(({ startedAt, outputs }) => startedAt !== null || outputs.length > 0);
  const byCell = new Map(begun.flatMap(each => (each.cellId === null ? [] : [[each.cellId, each] as const])));
  const byCode = executionsByCode(begun);
  const ambiguous = repeated(cells.map(({ source }) => source));
  return cells
    .filter(({ id }) => selected === null || selected.has(id))
    .map(cell => {
      // For clients that name no cell, the cell is found by its code, if that is unique.
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

/** The newest execution of each code, among executions that name no cell. */
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

/*
 * Output captured by Output widgets belongs to no cell. A notebook stores it in the saved state of its widgets, from which
 * JupyterLab, nbclient and nbconvert show it in the cells that show the widget.
 */

const VIEW_TYPE = 'application/vnd.jupyter.widget-view+json';
const STATES = ['metadata', 'widgets', 'application/vnd.jupyter.widget-state+json'] as const;

/** The widgets whose captured outputs are written: those that a cell shows, or that a cell filled. */
export function widgetsOf(
  placed: readonly PlacedCell[],
  widgets: readonly CapturedOutputs[]
): CapturedOutputs[] {
  const written = placed.flatMap(({ placement, execution }) =>
    placement === 'written' && execution !== null ? [execution] : []
  );
  const executed = new Set(written.map(({ msgId }) => msgId));
  const shown = new Set(written.flatMap(({ outputs }) => outputs.map(({ output }) => modelOf(output))));
  return widgets.filter(({ commId, msgIds }) => shown.has(commId) || msgIds.some(id => executed.has(id)));
}

/** The text of a notebook with these outputs in the saved state of the widgets. Other widgets and other state stay unchanged. */
export function withWidgetOutputs(text: string, widgets: readonly CapturedOutputs[]): string {
  return widgets.reduce((before, { commId, outputs }) => {
    const captured = outputs.map(({ output }) => output);
    const model = [...STATES, 'state', commId];
    if (valueAt(before, model) !== undefined)
      return withValue(before, [...model, 'state', 'outputs'], captured);
    const whole = {
      model_module: '@jupyter-widgets/output',
      model_module_version: '1.0.0',
      model_name: 'OutputModel',
      state: { msg_id: '', outputs: captured }
    };
    if (valueAt(before, STATES) !== undefined) return withValue(before, model, whole);
    return withValue(before, STATES, { state: { [commId]: whole }, version_major: 2, version_minor: 0 });
  }, text);
}

function modelOf(output: NotebookOutput): unknown {
  if (!('data' in output)) return null;
  const view = output.data[VIEW_TYPE];
  return typeof view === 'object' && view !== null && 'model_id' in view ? view.model_id : null;
}
