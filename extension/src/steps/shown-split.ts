/**
 * The split that is shown of a step. One that was not watched reports its device time as host time, so all of its
 * time is divided in the proportions of the watched steps instead. Summary, chart and table all ask here.
 */
import { SPANS, type StepRing } from '../events/step-ring.js';

/** Shares of the five spans of the watched steps, in the order of `SPANS`; they add up to 1. */
export type WatchedShares = readonly number[];

const COMPILE = SPANS.indexOf('compile');

/**
 * Null when no step of the window was watched. Steps that compile are left out: their device time is never known,
 * and they say nothing about the others.
 *
 * @param window steps to look at, the newest
 */
export function watchedShares(steps: StepRing, window: number): WatchedShares | null {
  const totals = SPANS.map(() => 0);
  for (let at = Math.max(0, steps.length - window); at < steps.length; at += 1) {
    if (steps.deviceKnown(at) && !compiles(steps, at)) {
      SPANS.forEach((_, span) => {
        totals[span] = (totals[span] ?? 0) + steps.spanMs(at, span);
      });
    }
  }
  const sum = totals.reduce((total, ms) => total + ms, 0);
  return sum > 0 ? totals.map(ms => ms / sum) : null;
}

/** True for a step whose split is that of the watched steps, because it has none of its own. */
export function isEstimated(steps: StepRing, position: number, shares: WatchedShares | null): boolean {
  return shares !== null && !steps.deviceKnown(position) && !compiles(steps, position);
}

/** @param span position in `SPANS` */
export function shownSpanMs(
  steps: StepRing,
  position: number,
  span: number,
  shares: WatchedShares | null
): number {
  return isEstimated(steps, position, shares)
    ? steps.wallMs(position) * (shares?.[span] ?? 0)
    : steps.spanMs(position, span);
}

function compiles(steps: StepRing, position: number): boolean {
  return steps.spanMs(position, COMPILE) > 0;
}
