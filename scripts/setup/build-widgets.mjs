// @ts-check
/** The front ends of the widgets: one ES module each, in the Python package that sends them to pages without our extension. */
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { runOrExplain } from './run-command.mjs';

export const WIDGET_FILES = path.join(checkout.root, 'kernel-agent/src/tpulab/widgets/static');
export const WIDGETS = ['device-monitor', 'step-timeline', 'training-controls'];

/** @param {AbortSignal} [signal] */
export async function buildWidgets(signal) {
  await runOrExplain(
    'bundling the widgets',
    process.execPath,
    [path.join(checkout.root, 'scripts/setup/bundle-widgets.mjs')],
    { cwd: checkout.root, timeoutMs: 600_000, ...(signal ? { signal } : {}) }
  );
}
