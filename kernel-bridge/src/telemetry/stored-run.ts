/** One run as it is stored: its telemetry, summarised and thinned so that it stays small however long the run is. */
import {
  addMedium,
  extremes,
  MAX_METRICS,
  meansOf,
  storedRunKey,
  thinned,
  ALERTS,
  type AdviceMessage,
  type BandMessage,
  type CompileMessage,
  type ControlMessage,
  type FiguresMessage,
  type MediaMessage,
  type StoredRun,
  type StoredRunSummary,
  type ThroughputMessage,
  type RunMessage,
  type RunPart,
  type StepSample,
  type StepsMessage,
  ownValue
} from '@tpulab/protocol';

/** Points of a metric; at twice as many, only the lowest and the highest of each small group stay. */
export const MAX_POINTS = 1_000;
const MAX_NOTES = 256;
const MAX_ALERTS = 64;
const MAX_PROGRAMS = 128;
/** Limit of parts of a run with separate sums; at twice as many, two become one. */
export const MAX_PARTS = 128;

export function newStoredRun(kernelId: string, run: string, time: number): StoredRun {
  return {
    v: 1,
    key: storedRunKey(kernelId, run),
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

/** @returns whether this message ends the run, or adds a new alert */
export function addToRun(
  stored: StoredRun,
  message:
    | AdviceMessage
    | RunMessage
    | StepsMessage
    | FiguresMessage
    | MediaMessage
    | BandMessage
    | ControlMessage
    | ThroughputMessage
    | CompileMessage
): boolean {
  stored.lastAt = Math.max(stored.lastAt, message.time);
  switch (message.type) {
    case 'run':
      stored.name = message.name;
      stored.totalSteps = message.totalSteps;
      if (message.control) {
        stored.config = message.control.config;
        stored.hyperparameters = message.control.hyperparameters;
        if (message.control.branch) stored.branch = message.control.branch;
      }
      stored.state = message.state;
      return message.state !== 'running';
    case 'steps':
      addSteps(stored, message);
      return false;
    case 'figures':
      for (const [name, value] of Object.entries(message.metrics))
        addPoint(stored, name, message.step, value);
      return false;
    case 'band':
      if (
        !stored.bands.some(({ startTime, kind }) => startTime === message.startTime && kind === message.kind)
      )
        stored.bands = [...stored.bands, message].slice(-MAX_NOTES);
      return false;
    case 'media':
      addMedium((stored.media ??= []), message);
      return false;
    case 'control':
      stored.commands = [...stored.commands.filter(({ id }) => id !== message.id), message].slice(-MAX_NOTES);
      return false;
    case 'pace':
      if (message.tokensPerSecond !== null && message.stepsPerSecond)
        stored.tokensPerStep = message.tokensPerSecond / message.stepsPerSecond;
      return false;
    case 'compile':
      addProgram(stored, message);
      return false;
    case 'advice': {
      const alerts = stored.alerts ?? [];
      if (!ALERTS.has(message.kind) || alerts.some(({ id }) => id === message.id)) return false;
      stored.alerts = [...alerts, message].slice(-MAX_ALERTS);
      return true;
    }
  }
}

/** Keeps the first programs and the newest of the others. A replay repeats some of them. */
function addProgram(stored: StoredRun, message: CompileMessage): void {
  const { phase, eager, location, reason, cacheHit, fingerprint = null } = message;
  if (phase !== 'finished' || eager) return;
  const programs = (stored.programs ??= []);
  const ms = message.traceMs + message.lowerMs + message.compileMs;
  if (programs.some(other => other.function === message.function && other.ms === ms)) return;
  const reused = message.reused === true && { reused: true };
  if (programs.length >= MAX_PROGRAMS) programs.splice(MAX_PROGRAMS / 2, 1);
  programs.push({
    function: message.function,
    step: stored.steps,
    ms,
    cacheHit,
    location,
    reason,
    fingerprint,
    ...reused
  });
}

/** A history that is replayed after a restart of the gateway repeats known steps, which are skipped by their number. */
function addSteps(stored: StoredRun, { steps }: StepsMessage): void {
  for (const step of steps) {
    if (step.index < stored.steps) continue;
    stored.steps = step.index + 1;
    for (const name of Object.keys(stored.totals) as (keyof StoredRun['totals'])[])
      stored.totals[name] += step[name];
    addToPart(stored, step);
    for (const [name, value] of Object.entries(step.metrics ?? {})) addPoint(stored, name, step.index, value);
  }
}

function addToPart(stored: StoredRun, step: StepSample): void {
  const parts = (stored.parts ??= { size: 1, list: [] });
  let part = parts.list.at(-1);
  if (!part || isAfter(step, part, parts.size)) {
    if (parts.list.length >= 2 * MAX_PARTS) {
      parts.size *= 2;
      parts.list = merged(parts.list, parts.size);
      part = parts.list.at(-1);
    }
    if (!part || isAfter(step, part, parts.size))
      parts.list.push((part = emptyPart(step.index, step.startTime)));
  }
  const isInterrupted = Object.keys(step.bands ?? {}).some(kind => kind !== 'transfer');
  if (step.compileMs > 0 || isInterrupted) return;
  part.steps += 1;
  part.wallMs += step.wallMs;
  if (step.deviceKnown) part.watched.steps += 1;
  const sums = step.deviceKnown ? part.watched : part.unwatched;
  for (const name of SUMS) sums[name] += step[name];
}

const isAfter = (step: StepSample, part: RunPart, size: number): boolean =>
  step.index >= part.step - (part.step % size) + size;

const SUMS = ['wallMs', 'inputMs', 'hostMs', 'deviceMs', 'gapMs'] as const;

function emptyPart(step: number, time: number): RunPart {
  const none = { wallMs: 0, inputMs: 0, hostMs: 0, deviceMs: 0, gapMs: 0 };
  return { step, time, steps: 0, wallMs: 0, watched: { steps: 0, ...none }, unwatched: none };
}

function merged(parts: readonly RunPart[], size: number): RunPart[] {
  const list: RunPart[] = [];
  for (const part of parts) {
    const last = list.at(-1);
    if (!last || Math.floor(last.step / size) !== Math.floor(part.step / size)) {
      list.push(part);
      continue;
    }
    last.steps += part.steps;
    last.wallMs += part.wallMs;
    last.watched.steps += part.watched.steps;
    for (const name of SUMS) {
      last.watched[name] += part.watched[name];
      last.unwatched[name] += part.unwatched[name];
    }
  }
  return list;
}

function addPoint(stored: StoredRun, name: string, index: number, value: number): void {
  const previous = ownValue(stored.series, name);
  if (!previous && Object.keys(stored.series).length >= MAX_METRICS) return;
  const series = (stored.series[name] = previous ?? { steps: [], values: [] });
  const waiting = (series.waiting ??= []);
  stored.metrics[name] = value;
  const last = waiting.at(-1);
  if (last?.[0] === index) waiting.pop();
  waiting.push([index, value]);
  const group = series.group ?? 1;
  if (waiting.length < group) return;
  const values = waiting.map(([, one]) => one);
  const places = group === 1 ? [0] : extremes(values, 0, values.length);
  for (const [at, point] of waiting.entries()) if (places.includes(at)) addTo(series, point);
  series.waiting = [];
  if (series.steps.length <= 2 * MAX_POINTS) return;
  const stay = thinned(series.values);
  series.steps = stay.map(at => series.steps[at] ?? 0);
  series.values = stay.map(at => series.values[at] ?? 0);
  series.group = group === 1 ? 4 : group * 2;
}

function addTo(
  { steps, values }: StoredRun['series'][string],
  [step, value]: readonly [number, number]
): void {
  const at = steps.at(-1) === step ? steps.length - 1 : steps.length;
  steps[at] = step;
  values[at] = value;
}

export function summaryOf(stored: StoredRun): StoredRunSummary {
  const { key, kernelId, run, name, state, startedAt, lastAt, steps, totalSteps, config, metrics } = stored;
  const { labels, machine, document, branch } = stored;
  const stepMs = meansOf(stored)?.stepMs;
  return {
    ...{ key, kernelId, run, name, state, startedAt, lastAt, steps, totalSteps, config, metrics },
    ...(labels && { labels }),
    ...(branch && { branch }),
    ...(machine !== undefined && { machine }),
    ...(document !== undefined && { document }),
    ...(stepMs !== undefined && { stepMs })
  };
}
