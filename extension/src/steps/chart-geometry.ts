/** Positions of the bars in the step chart: pure arithmetic, so that it is tested without a canvas. */
import { SPANS, type StepRing } from '../events/step-ring.js';
import { isEstimated, shownSpanMs, type WatchedShares } from './shown-split.js';

/** A bar is clipped when it is taller than this many typical bars; otherwise one compilation flattens all the others. */
const CLIP_FACTOR = 2.5;
const GAP_SHARE = 0.2;
const WIDEST_BAR = 14;
const COMPILE = SPANS.indexOf('compile');

export interface ChartArea {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface ChartScale {
  /** Milliseconds at the top of the area. */
  readonly topMs: number;
  readonly typicalMs: number;
  /** First position of the window in the ring. */
  readonly first: number;
  readonly count: number;
  /** Distance from one bar to the next; a pixel at least. */
  readonly pitch: number;
  readonly barWidth: number;
}

/** A bar taller than the area; it is drawn cut, with its value. */
interface ClippedBar {
  readonly position: number;
  readonly x: number;
  readonly wallMs: number;
}

/**
 * The window ends with the newest step, or `behind` steps before it. Bars keep their positions until the window is full, so the chart
 * grows from the left and then moves on.
 */
export function scaleOf(steps: StepRing, window: number, area: ChartArea, behind = 0): ChartScale {
  const available = Math.max(0, steps.length - behind);
  const count = Math.min(available, window, Math.max(1, Math.floor(area.width)));
  const first = available - count;
  const slots = Math.min(window, Math.max(1, Math.floor(area.width)));
  const pitch = Math.min(area.width / slots, WIDEST_BAR / (1 - GAP_SHARE));
  const walls = new Float64Array(count);
  for (let at = 0; at < count; at += 1) {
    walls[at] = steps.wallMs(first + at);
  }
  walls.sort();
  const typicalMs = walls[count >> 1] ?? 0;
  let tallest = typicalMs;
  for (const wallMs of walls) {
    if (wallMs <= typicalMs * CLIP_FACTOR) {
      tallest = wallMs;
    }
  }
  const barWidth = pitch >= 3 ? pitch - Math.max(1, Math.round(pitch * GAP_SHARE)) : pitch;
  return { topMs: roundUp(tallest * 1.1), typicalMs, first, count, pitch, barWidth };
}

export function xOf(scale: ChartScale, area: ChartArea, position: number): number {
  return area.left + (position - scale.first) * scale.pitch;
}

/**
 * Calls `draw` for each visible piece of one span, with its upper edge and height, and whether the step was not
 * watched, so that its split is an estimate; nothing below a tenth of a pixel.
 */
export function forEachPiece(
  steps: StepRing,
  scale: ChartScale,
  area: ChartArea,
  span: number,
  shares: WatchedShares | null,
  draw: (x: number, y: number, width: number, height: number, estimated: boolean) => void
): void {
  const pixels = area.height / scale.topMs;
  const bottom = area.top + area.height;
  for (let position = scale.first; position < scale.first + scale.count; position += 1) {
    let below = 0;
    for (let lower = 0; lower < span; lower += 1) {
      below += shownSpanMs(steps, position, lower, shares);
    }
    const from = Math.min(below * pixels, area.height);
    const to = Math.min((below + shownSpanMs(steps, position, span, shares)) * pixels, area.height);
    if (to - from > 0.1) {
      draw(
        xOf(scale, area, position),
        bottom - to,
        scale.barWidth,
        to - from,
        isEstimated(steps, position, shares)
      );
    }
  }
}

/** The bars that do not fit, the tallest first. */
export function clippedBars(steps: StepRing, scale: ChartScale, area: ChartArea): ClippedBar[] {
  const clipped: ClippedBar[] = [];
  for (let position = scale.first; position < scale.first + scale.count; position += 1) {
    const wallMs = steps.wallMs(position);
    if (wallMs > scale.topMs) {
      clipped.push({ position, x: xOf(scale, area, position), wallMs });
    }
  }
  return clipped.sort((a, b) => b.wallMs - a.wallMs);
}

/** Positions at which something was compiled: they get a mark, because colour alone is not enough. */
export function compiledPositions(steps: StepRing, scale: ChartScale): number[] {
  const positions: number[] = [];
  for (let position = scale.first; position < scale.first + scale.count; position += 1) {
    if (steps.spanMs(position, COMPILE) > 0) {
      positions.push(position);
    }
  }
  return positions;
}

/** Left edges for labels of given widths, in order of importance; null for labels that would cover an earlier one. */
export function placeLabels(
  wanted: readonly { readonly x: number; readonly width: number }[],
  area: ChartArea
): (number | null)[] {
  const taken: { from: number; to: number }[] = [];
  return wanted.map(({ x, width }) => {
    const from = Math.max(area.left, Math.min(x, area.left + area.width - width));
    const to = from + width;
    if (taken.some(other => from < other.to + 4 && to + 4 > other.from)) {
      return null;
    }
    taken.push({ from, to });
    return from;
  });
}

/** The step under a point; null outside the bars. */
export function positionAt(scale: ChartScale, area: ChartArea, x: number): number | null {
  const at = Math.floor((x - area.left) / scale.pitch);
  return at >= 0 && at < scale.count ? scale.first + at : null;
}

/** The next higher round number, so that the scale does not change with each step. */
export function roundUp(value: number): number {
  if (!(value > 0)) {
    return 1;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  const lead = value / power;
  const rounded =
    [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10].find(step => step >= lead - 1e-9) ??
    10;
  return rounded * power;
}
