/** Runs as files: curves and a table as CSV, everything as JSON. */
import { meansOf, ownValue, RUN_SPANS } from './compare-runs.js';
import type { StoredRun } from './runs.js';

/** Every stored point of every metric: run, metric, step, value. */
export function curvesCsv(runs: readonly StoredRun[]): string {
  const lines = runs.flatMap(run =>
    Object.entries(run.series).flatMap(([name, series]) =>
      wholeSeries(series).map(([step, value]) => [cell(run.name), run.key, cell(name), step, value].join(','))
    )
  );
  return `${['run,key,metric,step,value', ...lines].join('\r\n')}\r\n`;
}

/** One line per run: settings, newest metrics, milliseconds of each span of a step. */
export function tableCsv(runs: readonly StoredRun[]): string {
  const settings = [...new Set(runs.flatMap(({ config }) => Object.keys(config)))].sort();
  const metrics = [...new Set(runs.flatMap(run => Object.keys(run.metrics)))].sort();
  const head = ['run', 'key', 'state', 'started', 'notebook', 'machine', 'steps', 'tags', 'note', 'group'];
  const lines = runs.map(run => {
    const means = meansOf(run);
    const { name, key, state, startedAt, document = '', machine = '', steps, labels = {}, config } = run;
    return [
      ...[cell(name), key, state, new Date(startedAt).toISOString(), cell(document), cell(machine), steps],
      ...[cell((labels.tags ?? []).join(' ')), cell(labels.note ?? ''), cell(labels.group ?? '')],
      ...[means?.stepMs ?? '', ...RUN_SPANS.map(span => means?.spans[span] ?? '')],
      ...settings.map(setting => cell(String(ownValue(config, setting) ?? ''))),
      ...metrics.map(metric => ownValue(run.metrics, metric) ?? '')
    ].join(',');
  });
  const spans = ['step_ms', ...RUN_SPANS.map(span => `${span === 'gap' ? 'idle' : span}_ms`)];
  return `${[[...head, ...spans, ...[...settings, ...metrics].map(cell)].join(','), ...lines].join('\r\n')}\r\n`;
}

export function runsJson(runs: readonly StoredRun[]): string {
  return `${JSON.stringify({ format: 1, runs }, null, 2)}\n`;
}

/** The thinned points, then the newest ones, which are not thinned. */
export function wholeSeries({
  steps,
  values,
  waiting = []
}: StoredRun['series'][string]): (readonly [step: number, value: number])[] {
  return [...steps.map((step, at) => [step, values[at] ?? Number.NaN] as const), ...waiting];
}

/** A user's text in a CSV cell: quoted, and never interpreted as a spreadsheet formula. */
export function cell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
