/** Paints the step chart onto a canvas context. */
import { durationText } from '@tpulab/protocol';
import { SPANS, type StepRing } from '../events/step-ring.js';
import type { ChartColors } from './chart-colors.js';
import {
  type ChartArea,
  type ChartScale,
  clippedBars,
  compiledPositions,
  forEachPiece,
  placeLabels,
  xOf
} from './chart-geometry.js';
import type { WatchedShares } from './shown-split.js';

/** Room for the values of clipped bars. */
const LABEL_HEIGHT = 14;
/** Room for the marks of compilations, and below for the marks of commands and work besides the steps. */
const MARK_HEIGHT = 18;
/** Room for the scale. */
const SCALE_WIDTH = 46;
const CUT_BELOW_TOP = 9;
/** Opacity of unwatched steps; the swatch of the legend (steps.css) is equally pale. */
const ESTIMATED_ALPHA = 0.65;

const COMPILE = SPANS.indexOf('compile');
const IDLE = SPANS.indexOf('gap');

export function areaOf(width: number, height: number): ChartArea {
  return {
    left: 0,
    top: LABEL_HEIGHT,
    width: Math.max(1, width - SCALE_WIDTH),
    height: Math.max(1, height - LABEL_HEIGHT - MARK_HEIGHT)
  };
}

export interface PlacedMark {
  readonly position: number;
  /** A command is a diamond, work besides the steps a square. */
  readonly isCommand: boolean;
}

interface PaintOptions {
  readonly context: CanvasRenderingContext2D;
  readonly steps: StepRing;
  readonly scale: ChartScale;
  /** The split for unwatched steps; null when no step was watched. */
  readonly shares: WatchedShares | null;
  readonly area: ChartArea;
  readonly colors: ChartColors;
  /** Fills idle time, which must not look like an empty track; null where a canvas supports no patterns. */
  readonly hatch?: CanvasPattern | null;
  /** Positions of events besides computing. */
  readonly marks?: readonly PlacedMark[];
  /** The step under the pointer. */
  readonly highlighted: number | null;
}

export function paintSteps(options: PaintOptions): void {
  const { context, steps, scale, shares, area, colors, hatch } = options;
  context.font = colors.font;
  paintScale(options);
  for (let span = 0; span < SPANS.length; span += 1) {
    context.fillStyle = (span === IDLE ? hatch : null) ?? colors.spans[span] ?? colors.text;
    // Individual rectangles: one path of all takes the renderer several times as long.
    forEachPiece(steps, scale, area, span, shares, (x, y, width, height, estimated) => {
      context.globalAlpha = estimated ? ESTIMATED_ALPHA : 1;
      context.fillRect(x, y, width, height);
    });
  }
  context.globalAlpha = 1;
  paintClipped(options);
  paintCompiled(options);
  paintMarks(options);
  paintHighlight(options);
}

function paintScale({ context, scale, area, colors }: PaintOptions): void {
  context.strokeStyle = colors.line;
  context.fillStyle = colors.text;
  context.lineWidth = 1;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  context.beginPath();
  for (const share of [0, 0.5, 1]) {
    const y = Math.round(area.top + area.height * (1 - share)) + 0.5;
    context.moveTo(area.left, y);
    context.lineTo(area.left + area.width, y);
    if (share > 0) {
      context.fillText(durationText(scale.topMs * share), area.left + area.width + 5, y);
    }
  }
  context.stroke();
}

/** A slanted cut through each bar that is too tall, and its value above, space permitting. */
function paintClipped({ context, steps, scale, area, colors }: PaintOptions): void {
  const bars = clippedBars(steps, scale, area);
  if (bars.length === 0) {
    return;
  }
  context.strokeStyle = colors.background;
  context.lineWidth = 2.5;
  context.beginPath();
  for (const { x } of bars) {
    context.moveTo(x - 1, area.top + CUT_BELOW_TOP + 2);
    context.lineTo(x + scale.barWidth + 1, area.top + CUT_BELOW_TOP - 2);
  }
  context.stroke();
  const texts = bars.map(bar => durationText(bar.wallMs));
  const wanted = bars.map((bar, at) => ({ x: bar.x, width: context.measureText(texts[at] ?? '').width }));
  context.fillStyle = colors.text;
  context.textBaseline = 'alphabetic';
  placeLabels(wanted, area).forEach((x, at) => {
    if (x !== null) {
      context.fillText(texts[at] ?? '', x, area.top - 4);
    }
  });
}

function paintCompiled({ context, steps, scale, area, colors }: PaintOptions): void {
  context.fillStyle = colors.spans[COMPILE] ?? colors.text;
  context.beginPath();
  for (const position of compiledPositions(steps, scale)) {
    const middle = xOf(scale, area, position) + scale.barWidth / 2;
    const top = area.top + area.height + 2;
    context.moveTo(middle, top);
    context.lineTo(middle + 3.5, top + 6);
    context.lineTo(middle - 3.5, top + 6);
    context.closePath();
  }
  context.fill();
}

function paintMarks({ context, scale, area, colors, marks = [] }: PaintOptions): void {
  context.fillStyle = colors.text;
  context.beginPath();
  for (const { position, isCommand } of marks) {
    if (position < scale.first || position >= scale.first + scale.count) {
      continue;
    }
    const x = xOf(scale, area, position) + scale.barWidth / 2;
    const y = area.top + area.height + 13;
    if (isCommand) {
      context.moveTo(x, y - 4);
      context.lineTo(x + 4, y);
      context.lineTo(x, y + 4);
      context.lineTo(x - 4, y);
      context.closePath();
    } else {
      context.rect(x - 3, y - 3, 6, 6);
    }
  }
  context.fill();
}

function paintHighlight({ context, scale, area, colors, highlighted }: PaintOptions): void {
  if (highlighted === null || highlighted < scale.first || highlighted >= scale.first + scale.count) {
    return;
  }
  context.strokeStyle = colors.text;
  context.lineWidth = 1;
  const x = xOf(scale, area, highlighted);
  context.strokeRect(x - 0.5, area.top - 0.5, scale.barWidth + 1, area.height + 1);
}
