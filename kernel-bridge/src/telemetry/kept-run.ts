/** One run as it is kept: what its telemetry says, summed up and thinned so that it stays small however long the run is. */
import {
  extremes,
  thinned,
  type BandMessage,
  type ControlMessage,
  type FiguresMessage,
  type KeptRun,
  type KeptRunSummary,
  type RunMessage,
  type StepsMessage
} from '@tpulab/protocol';

/** Points of a metric; beyond twice as many, the lowest and the highest of each few stay. */
export const POINTS_KEPT = 1_000;
const METRICS_KEPT = 32;
const NOTES_KEPT = 256;

export function keptKey(kernelId: string, run: string): string {
  const safe = (text: string): string => text.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 90);
  return `${safe(kernelId)}.${safe(run)}`;
}

export function newKeptRun(kernelId: string, run: string, time: number): KeptRun {
  return {
    v: 1,
    key: keptKey(kernelId, run),
    kernelId,
    run,
    name: run,
    state: 'running',
    startedAt: time,
    lastAt: time,
    steps: 0,
    totalSteps: null,
    config: {},
    metrics: {},
    hyperparameters: [],
    series: {},
    totals: { wallMs: 0, inputMs: 0, hostMs: 0, compileMs: 0, deviceMs: 0, gapMs: 0 },
    bands: [],
    commands: []
  };
}

/** @returns whether the run has come to its end by this */
export function addToRun(
  kept: KeptRun,
  message: RunMessage | StepsMessage | FiguresMessage | BandMessage | ControlMessage
): boolean {
  kept.lastAt = Math.max(kept.lastAt, message.time);
  switch (message.type) {
    case 'run':
      kept.name = message.name;
      kept.totalSteps = message.totalSteps;
      if (message.control) {
        kept.config = message.control.config;
        kept.hyperparameters = message.control.hyperparameters;
      }
      kept.state = message.state;
      return message.state !== 'running';
    case 'steps':
      addSteps(kept, message);
      return false;
    case 'figures':
      for (const [name, value] of Object.entries(message.metrics)) addPoint(kept, name, message.step, value);
      return false;
    case 'band':
      if (!kept.bands.some(({ startTime, kind }) => startTime === message.startTime && kind === message.kind))
        kept.bands = [...kept.bands, message].slice(-NOTES_KEPT);
      return false;
    case 'control':
      kept.commands = [...kept.commands.filter(({ id }) => id !== message.id), message].slice(-NOTES_KEPT);
      return false;
  }
}

/** A history that is replayed after a restart of the gateway says again what is known already: that is left out by its number. */
function addSteps(kept: KeptRun, { steps }: StepsMessage): void {
  for (const step of steps) {
    if (step.index < kept.steps) continue;
    kept.steps = step.index + 1;
    for (const name of Object.keys(kept.totals) as (keyof KeptRun['totals'])[])
      kept.totals[name] += step[name];
    for (const [name, value] of Object.entries(step.metrics ?? {})) addPoint(kept, name, step.index, value);
  }
}

function addPoint(kept: KeptRun, name: string, index: number, value: number): void {
  const known = Object.hasOwn(kept.series, name) ? kept.series[name] : undefined;
  if (!known && Object.keys(kept.series).length >= METRICS_KEPT) return;
  const series = (kept.series[name] = known ?? { steps: [], values: [] });
  const waiting = (series.waiting ??= []);
  kept.metrics[name] = value;
  const last = waiting.at(-1);
  if (last?.[0] === index) waiting.pop();
  waiting.push([index, value]);
  const group = series.group ?? 1;
  if (waiting.length < group) return;
  const values = waiting.map(([, one]) => one);
  const places = group === 1 ? [0] : extremes(values, 0, values.length);
  for (const [at, point] of waiting.entries()) if (places.includes(at)) addTo(series, point);
  series.waiting = [];
  if (series.steps.length <= 2 * POINTS_KEPT) return;
  const stay = thinned(series.values);
  series.steps = stay.map(at => series.steps[at] ?? 0);
  series.values = stay.map(at => series.values[at] ?? 0);
  series.group = group === 1 ? 4 : group * 2;
}

function addTo({ steps, values }: KeptRun['series'][string], [step, value]: readonly [number, number]): void {
  const at = steps.at(-1) === step ? steps.length - 1 : steps.length;
  steps[at] = step;
  values[at] = value;
}

export function summaryOf(kept: KeptRun): KeptRunSummary {
  const { key, kernelId, run, name, state, startedAt, lastAt, steps, totalSteps, config, metrics } = kept;
  return { key, kernelId, run, name, state, startedAt, lastAt, steps, totalSteps, config, metrics };
}
