/** The summary of a run's newest steps: typical time, its split, rate, remaining time. */
import { wholePercents } from '@tpulab/protocol';
import type { Run } from '../events/run.js';
import { type Span, SPANS, type StepRing } from '../events/step-ring.js';
import { isEstimated, shownSpanMs, spannedMs, watchedShares } from './shown-split.js';

interface SpanShare {
  readonly span: Span;
  /** Mean of the window. The means of the five spans add up to `meanMs`. */
  readonly meanMs: number;
  /** Whole percent of all time in the window; the five add up to 100. */
  readonly percent: number;
}

export interface StepSummary {
  /** Steps in the window. */
  readonly count: number;
  /**
   * Mean of the steps that did not compile, so that one compilation does not count as step time; of all steps where compiling is
   * normal. It excludes evaluations and checkpoints inside steps: steps times this mean is the elapsed time.
   */
  readonly typicalMs: number;
  /** In a loop that runs ahead of its device, most steps only queue their work: far below the mean. */
  readonly medianMs: number;
  readonly meanMs: number;
  /** Evaluations, checkpoints and the like inside the steps of the window. */
  readonly bandsMs: number;
  readonly spans: readonly SpanShare[];
  /** Steps at the typical time; null with fewer than two steps. */
  readonly perSecond: number | null;
  /** Steps of the window in which something was compiled. */
  readonly compiledSteps: number;
  readonly compileMs: number;
  /** All compiling of the window happened in the first step of the run, as it must. */
  readonly onlyFirstCompiled: boolean;
  /**
   * False when no step was watched, so that device time is part of host. Where some were watched, the others' time is
   * split in the same proportions.
   */
  readonly deviceKnown: boolean;
  /** Unwatched steps of the window, which are split like the watched ones. */
  readonly estimatedSteps: number;
  /** Number of the newest step in its run, from 0. */
  readonly lastIndex: number;
}

export interface Progress {
  readonly done: number;
  readonly total: number;
  /** Null when it cannot be determined. */
  readonly remainingMs: number | null;
}

/** The parts of a step are reported in whole microseconds, so their sum may differ from the whole. */
const ROUNDING_MS = 0.01;
const COMPILE = SPANS.indexOf('compile');
/** Compiling counts as normal if at least every fourth step compiles. */
const ALWAYS = 4;
/** Number of steps without compiling before the remaining time is shown. */
const STEADY_STEPS = 10;

/** Null when there is no step. @param window number of newest steps */
export function summarize(steps: StepRing, window: number): StepSummary | null {
  const count = Math.min(steps.length, window);
  if (count < 1) {
    return null;
  }
  const first = steps.length - count;
  const last = steps.length - 1;
  const shares = watchedShares(steps, window);
  const totals = SPANS.map(() => 0);
  const walls: number[] = [];
  let bandsMs = 0;
  let steadyMs = 0;
  let compiledSteps = 0;
  let estimatedSteps = 0;
  let onlyFirstCompiled = true;
  for (let at = first; at <= last; at += 1) {
    const spanned = spannedMs(steps, at);
    walls.push(spanned);
    const insideMs = steps.wallMs(at) - spanned;
    bandsMs += insideMs > ROUNDING_MS ? insideMs : 0;
    SPANS.forEach((_, span) => {
      totals[span] = (totals[span] ?? 0) + shownSpanMs(steps, at, span, shares);
    });
    if (steps.spanMs(at, COMPILE) > 0) {
      compiledSteps += 1;
      onlyFirstCompiled &&= steps.index(at) === 0;
    } else {
      steadyMs += spanned;
    }
    if (isEstimated(steps, at, shares)) {
      estimatedSteps += 1;
    }
  }
  const percents = wholePercents(totals);
  const meanMs = sum(totals) / count;
  const isException = compiledSteps * ALWAYS < count && compiledSteps < count;
  const typicalMs = isException ? steadyMs / (count - compiledSteps) : meanMs;
  return {
    count,
    typicalMs,
    medianMs: median(walls),
    meanMs,
    bandsMs,
    spans: SPANS.map((span, at) => ({ span, meanMs: (totals[at] ?? 0) / count, percent: percents[at] ?? 0 })),
    perSecond: steps.startTime(last) > steps.startTime(first) && typicalMs > 0 ? 1_000 / typicalMs : null,
    compiledSteps,
    compileMs: totals[COMPILE] ?? 0,
    onlyFirstCompiled: compiledSteps > 0 && onlyFirstCompiled,
    deviceKnown: shares !== null,
    estimatedSteps,
    lastIndex: steps.index(last)
  };
}

/** Null when the run has not reported its total number of steps. */
export function progressOf(run: Run, summary: StepSummary): Progress | null {
  const total = run.totalSteps;
  if (total === null || total < 1) {
    return null;
  }
  const done = Math.min(summary.lastIndex + 1, total);
  return { done, total, remainingMs: done < total ? remainingMs(run, summary, total - done) : null };
}

/** Null while the run is paused, and before enough steady steps. The agent knows all steps and the coming evaluations. */
function remainingMs({ state, control, throughput }: Run, summary: StepSummary, left: number): number | null {
  if (state !== 'running' || control?.state === 'paused') {
    return null;
  }
  if (throughput) {
    return throughput.etaSeconds === null ? null : throughput.etaSeconds * 1_000;
  }
  const isAlways = summary.compiledSteps * ALWAYS >= summary.count;
  const steady = isAlways ? summary.count / 2 : summary.count - summary.compiledSteps;
  return steady >= STEADY_STEPS ? left * summary.typicalMs : null;
}

export function shareOf(summary: StepSummary, span: Span): number {
  const part = summary.spans.find(share => share.span === span);
  return part && summary.meanMs > 0 ? part.meanMs / summary.meanMs : 0;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function median(values: number[]): number {
  values.sort((a, b) => a - b);
  const middle = values.length >> 1;
  const upper = values[middle] ?? 0;
  return values.length % 2 === 1 ? upper : (upper + (values[middle - 1] ?? upper)) / 2;
}
