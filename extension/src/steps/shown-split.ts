/**
 * The displayed split of a step. An unwatched step reports its device time as host time, so all of its
 * time but compiling is divided in the proportions of the watched steps instead. Used by summary, chart and table.
 */
import { SPANS, type StepRing } from '../events/step-ring.js';

/** Shares of the five spans of the watched steps, in the order of `SPANS`; they add up to 1. */
export type WatchedShares = readonly number[];

const COMPILE = SPANS.indexOf('compile');

/** Fewer watched steps are not representative: of short steps, where only some are watched, earlier ones are included. */
const MIN_WATCHED = 32;

/**
 * Null when no step was watched. Steps that compile are excluded: their device time is never known,
 * and they do not represent the others.
 *
 * @param window number of newest steps; more where too few of them were watched
 */
export function watchedShares(steps: StepRing, window: number): WatchedShares | null {
  const totals = SPANS.map(() => 0);
  let watched = 0;
  for (let at = steps.length - 1; at >= 0; at -= 1) {
    if (at < steps.length - window && watched >= MIN_WATCHED) {
      break;
    }
    if (steps.deviceKnown(at) && !compiles(steps, at)) {
      watched += 1;
      SPANS.forEach((_, span) => {
        totals[span] = (totals[span] ?? 0) + steps.spanMs(at, span);
      });
    }
  }
  const sum = totals.reduce((total, ms) => total + ms, 0);
  return sum > 0 ? totals.map(ms => ms / sum) : null;
}

/** True for a step that has no measured split and shows the split of the watched steps. */
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
  if (shares === null || steps.deviceKnown(position) || isFirst(steps, position)) {
    return steps.spanMs(position, span);
  }
  // Compiling is known in any case; the step's remaining time, without its bands, is estimated.
  const compileMs = steps.spanMs(position, COMPILE);
  return span === COMPILE ? compileMs : (spannedMs(steps, position) - compileMs) * (shares[span] ?? 0);
}

/** The time of a step without evaluations, checkpoints and the like inside it: the sum of its five spans. */
export function spannedMs(steps: StepRing, position: number): number {
  return SPANS.reduce((total, _, span) => total + steps.spanMs(position, span), 0);
}

/** The first step of a run waits for the starting loader, and for nothing on the device: its measured split is shown. */
function isFirst(steps: StepRing, position: number): boolean {
  return steps.index(position) === 0 && compiles(steps, position);
}

function compiles(steps: StepRing, position: number): boolean {
  return steps.spanMs(position, COMPILE) > 0;
}
