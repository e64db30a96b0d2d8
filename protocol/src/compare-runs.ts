/**
 * Why one run takes longer per step than another: which span grew, which program differs, which was compiled more often.
 * Pure functions, so that page and command line give the same result. They report what the data shows, and no further
 * cause.
 */
import type { StoredRun, StoredRunSummary, RunPart, RunProgram } from './runs.js';

export const RUN_SPANS = ['device', 'input', 'host', 'gap'] as const;
export type RunSpan = (typeof RUN_SPANS)[number];

/** Steps without a compilation that a comparison needs from each run. */
export const STEADY_STEPS = 10;
/** A difference below this share is too small to matter. */
const NEGLIGIBLE_SHARE = 0.03;

export interface StepMeans {
  readonly steps: number;
  readonly stepMs: number;
  /** Standard error of `stepMs`. */
  readonly errorMs: number;
  readonly spans: Readonly<Record<RunSpan, number>>;
  /** False: the device time is included in the host and idle times. */
  readonly isDeviceKnown: boolean;
}

export interface ProgramChange {
  readonly function: string;
  /** The newest program of each run. */
  readonly a: RunProgram;
  readonly b: RunProgram;
}

export interface RunComparison {
  /** `recompiles`: B recompiles every few steps. `other-machine`: times are not compared. */
  readonly verdict: 'slower' | 'same' | 'recompiles' | 'too-early' | 'other-machine';
  /** The faster one if the verdict is `slower` or `recompiles`; otherwise in the given order. */
  readonly a: StoredRun;
  readonly b: StoredRun;
  /** The range of steps that both runs have. */
  readonly from: number;
  readonly to: number;
  readonly meansOfA: StepMeans | null;
  readonly meansOfB: StepMeans | null;
  /** Additional time of B per span, the largest first; empty if the runs cannot be compared. */
  readonly grew: readonly { readonly span: RunSpan; readonly ms: number }[];
  readonly changed: readonly ProgramChange[];
  /** Functions whose program is the same in both. */
  readonly same: number;
  /** Compilations of B in excess of A's compilations of the same function. */
  readonly added: readonly RunProgram[];
  readonly differing: readonly string[];
}

export function compareRuns(one: StoredRun, other: StoredRun): RunComparison {
  const from = Math.max(firstStep(one), firstStep(other));
  const to = Math.min(one.steps, other.steps);
  const means = new Map([one, other].map(run => [run, meansOf(run, from, to)]));
  const stepMs = (run: StoredRun): number =>
    (means.get(run)?.stepMs ?? 0) + (recompiles(run) ? run.totals.compileMs / run.steps : 0);
  const [fast, slow] = stepMs(other) < stepMs(one) ? [other, one] : [one, other];
  const verdict = verdictOf(fast, slow, means.get(fast) ?? null, means.get(slow) ?? null);
  const [a, b] = verdict === 'slower' || verdict === 'recompiles' ? [fast, slow] : [one, other];
  const [meansOfA, meansOfB] = [means.get(a) ?? null, means.get(b) ?? null];
  const isSplit = meansOfA && meansOfB && meansOfA.isDeviceKnown === meansOfB.isDeviceKnown;
  const grew = isSplit
    ? RUN_SPANS.map(span => ({ span, ms: meansOfB.spans[span] - meansOfA.spans[span] }))
    : [];
  const functions = [...new Set([...programsOf(a), ...programsOf(b)].map(program => program.function))];
  // A function of only one run may have been compiled before the other began.
  const pairs = functions.flatMap(name => {
    const [ofA, ofB] = [newest(a, name), newest(b, name)];
    return ofA?.fingerprint && ofB?.fingerprint ? [{ function: name, a: ofA, b: ofB }] : [];
  });
  const isSame = (pair: ProgramChange): boolean => pair.a.fingerprint === pair.b.fingerprint;
  return {
    ...{ verdict, a, b, from, to, meansOfA, meansOfB },
    grew: grew.sort((x, y) => y.ms - x.ms),
    changed: pairs.filter(pair => !isSame(pair)),
    same: pairs.filter(isSame).length,
    added: functions.flatMap(name => ofName(b, name).slice(Math.max(1, ofName(a, name).length))),
    differing: differingNames([a, b])
  };
}

/** Names of the settings that differ between these runs, sorted. */
export function differingNames(runs: readonly Pick<StoredRunSummary, 'config'>[]): string[] {
  const names = [...new Set(runs.flatMap(({ config }) => Object.keys(config)))].sort();
  return names.filter(name => new Set(runs.map(({ config }) => ownValue(config, name))).size > 1);
}

/** The value of a setting or metric, whose name users choose: also "constructor" is missing where it was not set. */
export function ownValue<Value>(values: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}

function verdictOf(
  a: StoredRun,
  b: StoredRun,
  meansOfA: StepMeans | null,
  meansOfB: StepMeans | null
): RunComparison['verdict'] {
  if (a.machine !== undefined && b.machine !== undefined && a.machine !== b.machine) return 'other-machine';
  if (recompiles(b) && !recompiles(a)) return 'recompiles';
  if (!meansOfA || !meansOfB || Math.min(meansOfA.steps, meansOfB.steps) < STEADY_STEPS) return 'too-early';
  const moreMs = meansOfB.stepMs - meansOfA.stepMs;
  const noiseMs = 2 * Math.hypot(meansOfA.errorMs, meansOfB.errorMs);
  return moreMs < Math.max(noiseMs, NEGLIGIBLE_SHARE * meansOfA.stepMs) ? 'same' : 'slower';
}

/** Whether a run compiles a program for every fourth step, at a noticeable cost in time. */
function recompiles(run: StoredRun): boolean {
  const compiled = programsOf(run).filter(({ reused }) => reused !== true);
  return run.steps >= STEADY_STEPS && compiled.length >= Math.min(64, run.steps / 4);
}

/** Null if no step of this range was steady. */
export function meansOf(run: StoredRun, from = 0, to = Infinity): StepMeans | null {
  const parts = (run.parts?.list ?? []).filter(
    part => part.steps > 0 && part.step >= from - (run.parts?.size ?? 1) && part.step < to
  );
  const steps = sum(parts, part => part.steps);
  if (steps === 0) return null;
  const stepMs = sum(parts, part => part.wallMs) / steps;
  const isDeviceKnown = parts.some(part => part.watched.steps > 0);
  const spanMs = (span: RunSpan): number =>
    sum(parts, part => (isDeviceKnown ? part.watched : part.unwatched)[`${span}Ms`]);
  const whole = sum(RUN_SPANS, spanMs);
  const spans = Object.fromEntries(
    RUN_SPANS.map(span => [span, whole > 0 ? (spanMs(span) / whole) * stepMs : 0])
  ) as Record<RunSpan, number>;
  const squares = sum(parts, part => part.steps * (part.wallMs / part.steps - stepMs) ** 2) / steps;
  return { steps, stepMs, errorMs: Math.sqrt(squares / Math.max(1, parts.length - 1)), spans, isDeviceKnown };
}

/** When a step of a run began, in milliseconds since the first one; null if unknown. */
export function momentOf({ parts, lastAt, steps }: StoredRun, step: number): number | null {
  const list = parts?.list ?? [];
  const [first] = list;
  if (!first) return null;
  let at = list.length - 1;
  while (at > 0 && (list[at]?.step ?? 0) > step) at -= 1;
  const here = list[at] ?? first;
  const next: Pick<RunPart, 'step' | 'time'> = list[at + 1] ?? { step: steps, time: lastAt };
  const share = next.step > here.step ? (step - here.step) / (next.step - here.step) : 0;
  return here.time - first.time + Math.min(1, share) * (next.time - here.time);
}

const programsOf = (run: StoredRun): readonly RunProgram[] => run.programs ?? [];
const ofName = (run: StoredRun, name: string): RunProgram[] =>
  programsOf(run).filter(program => program.function === name);
const newest = (run: StoredRun, name: string): RunProgram | null => ofName(run, name).at(-1) ?? null;
const firstStep = (run: StoredRun): number => run.parts?.list[0]?.step ?? 0;

function sum<T>(list: readonly T[], of: (one: T) => number): number {
  return list.reduce((total, one) => total + of(one), 0);
}
