/** The steps of a run as a table for spreadsheets. */
import { cell } from '@tpulab/protocol';
import type { Run } from '../events/run.js';
import { SPANS } from '../events/step-ring.js';

/** One line for each stored step, oldest first: number, start, the five spans in milliseconds, metrics where known. */
export function toCsv(run: Run): string {
  const { steps } = run;
  const names = [...run.series.keys()];
  const byStep = metricsByStep(run);
  const head = [
    'step',
    'start_unix_ms',
    'wall_ms',
    ...SPANS.map(span => `${span}_ms`),
    'device_known',
    ...names
  ];
  const lines = [head.map(cell).join(',')];
  for (let at = 0; at < steps.length; at += 1) {
    const metrics = byStep.get(steps.index(at));
    lines.push(
      [
        steps.index(at),
        steps.startTime(at),
        rounded(steps.wallMs(at)),
        ...SPANS.map((_, span) => rounded(steps.spanMs(at, span))),
        steps.deviceKnown(at) ? 1 : 0,
        ...names.map(name => metrics?.get(name) ?? '')
      ].join(',')
    );
  }
  return `${lines.join('\r\n')}\r\n`;
}

/** Safe in every file system: `train-loop.csv`. */
export function fileName(run: Run, ending: string): string {
  const base = run.name.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[-.]+|[-.]+$/g, '') || 'steps';
  return `${base.slice(0, 80)}.${ending}`;
}

function metricsByStep(run: Run): Map<number, Map<string, number>> {
  const all = new Map<number, Map<string, number>>();
  for (const [name, { steps, values }] of run.series) {
    steps.forEach((index, at) => {
      const row = all.get(index) ?? new Map<string, number>();
      row.set(name, values[at] ?? Number.NaN);
      all.set(index, row);
    });
  }
  return all;
}

/** Microseconds are finer than the clock. */
function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}
