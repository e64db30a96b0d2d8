/** The part of a run before the page was opened: the bridge has stored its curves, its bands and its requests. */
import { addMedium, MAX_METRICS, type StoredRun, momentOf, wholeSeries } from '@tpulab/protocol';
import { MetricSeries } from '../events/metric-series.js';
import type { Run } from '../events/run.js';

const completed = new WeakSet<Run>();

/** Whether the page was opened during the run, and has only its newest part. */
export function lacksHistory(run: Run): boolean {
  const first = [...run.series.values()].map(({ steps }) => steps[0] ?? 0);
  return !completed.has(run) && first.length > 0 && Math.min(...first) > 0;
}

/** Inserts the stored part before the page's own part. */
export function addPast(run: Run, stored: StoredRun): void {
  completed.add(run);
  run.begunAt = Math.min(run.begunAt || Infinity, stored.startedAt);
  const start = stored.parts?.list[0]?.time ?? Number.NaN;
  for (const [name, points] of Object.entries(stored.series)) {
    const held = run.series.get(name);
    if (!held && run.series.size >= MAX_METRICS) {
      continue;
    }
    const whole = new MetricSeries();
    const from = held?.steps[0] ?? Infinity;
    for (const [step, value] of wholeSeries(points)) {
      if (step < from) {
        whole.push(step, value, start + (momentOf(stored, step) ?? Number.NaN));
      }
    }
    held?.steps.forEach((step, at) => whole.push(step, held.values[at] ?? Number.NaN, held.times[at]));
    run.series.set(name, whole);
  }
  const media = run.media.splice(0);
  for (const medium of [...(stored.media ?? []), ...media]) {
    addMedium(run.media, medium);
  }
  const bands = stored.bands.filter(
    ({ kind, startTime }) => !run.bands.some(one => one.kind === kind && one.startTime === startTime)
  );
  run.bands.unshift(...bands);
  run.commands.unshift(...stored.commands.filter(({ id }) => !run.commands.some(one => one.id === id)));
  run.version += 1;
}
