/**
 * What Output widgets have captured belongs to no cell. A notebook has it in the saved state of its widgets, from which JupyterLab,
 * nbclient and nbconvert show it where a cell shows the widget.
 */
import { type CapturedOutputs, type NotebookOutput, valueAt, withValue } from '@tpulab/protocol';
import type { PlacedCell } from './place-outputs.js';

const VIEW_TYPE = 'application/vnd.jupyter.widget-view+json';
const STATES = ['metadata', 'widgets', 'application/vnd.jupyter.widget-state+json'] as const;

/** The widgets whose outputs go with what is written: shown in a cell, or captured from one. */
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

/** The text of a notebook with these outputs in the saved state of the widgets. Other widgets and other state stay. */
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
