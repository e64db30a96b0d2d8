import { describe, expect, it } from 'vitest';
import { step } from '../events/samples.spec-data.js';
import { SPANS, StepRing } from '../events/step-ring.js';
import {
  clippedBars,
  compiledPositions,
  forEachPiece,
  placeLabels,
  positionAt,
  roundUp,
  scaleOf,
  xOf
} from './chart-geometry.js';
import { watchedShares } from './shown-split.js';

const AREA = { left: 10, top: 20, width: 300, height: 100 };

function ringOf(count: number, spikes: readonly number[] = []): StepRing {
  const ring = new StepRing(64);
  for (let index = 0; index < count; index += 1) {
    ring.push(step(index, spikes.includes(index) ? { compileMs: 1_950 } : {}));
  }
  return ring;
}

interface Piece {
  x: number;
  y: number;
  width: number;
  height: number;
  estimated: boolean;
}

function pieces(ring: StepRing, window = 48): Piece[][] {
  const scale = scaleOf(ring, window, AREA);
  return SPANS.map((_, span) => {
    const list: Piece[] = [];
    forEachPiece(ring, scale, AREA, span, watchedShares(ring, window), (x, y, width, height, estimated) =>
      list.push({ x, y, width, height, estimated })
    );
    return list;
  });
}

describe('the step chart', () => {
  it('stacks the five spans of a step without a gap, from the bottom of the area', () => {
    const stack = pieces(ringOf(1)).flat();
    let edge = AREA.top + AREA.height;
    for (const piece of stack) {
      expect(piece.y + piece.height).toBeCloseTo(edge);
      edge = piece.y;
    }
    const scale = scaleOf(ringOf(1), 48, AREA);
    expect(AREA.top + AREA.height - edge).toBeCloseTo((50 / scale.topMs) * AREA.height);
  });

  it('draws nothing for a span that took no time', () => {
    expect(pieces(ringOf(3))[2]).toEqual([]);
    expect(pieces(ringOf(3))[3]).toHaveLength(3);
  });

  it('draws an unwatched step like the watched one beside it, and marks it as estimated', () => {
    const ring = ringOf(1);
    ring.push(step(1, { hostMs: 48, deviceMs: 0, gapMs: 0, deviceKnown: false }));
    for (const [watched, other, ...more] of pieces(ring).filter(list => list.length > 0)) {
      expect(more).toEqual([]);
      expect([watched?.estimated, other?.estimated]).toEqual([false, true]);
      expect(other?.y).toBeCloseTo(watched?.y ?? Number.NaN);
      expect(other?.height).toBeCloseTo(watched?.height ?? Number.NaN);
    }
    expect(pieces(ring).map(list => list.length)).toEqual([2, 2, 0, 2, 2]);
  });

  it('keeps everything inside the area, for any number of steps and any window', () => {
    for (const count of [1, 5, 48, 64]) {
      for (const window of [1, 12, 48, 500]) {
        for (const piece of pieces(ringOf(count, [0, 30]), window).flat()) {
          expect(piece.x).toBeGreaterThanOrEqual(AREA.left);
          expect(piece.x + piece.width).toBeLessThanOrEqual(AREA.left + AREA.width + 1e-6);
          expect(piece.y).toBeGreaterThanOrEqual(AREA.top - 1e-6);
          expect(piece.y + piece.height).toBeLessThanOrEqual(AREA.top + AREA.height + 1e-6);
        }
      }
    }
  });

  it('clips a compilation instead of flattening the other steps, and knows its value', () => {
    const ring = ringOf(40, [0, 31]);
    const scale = scaleOf(ring, 48, AREA);
    expect(scale.topMs).toBe(60);
    expect(clippedBars(ring, scale, AREA).map(({ position, wallMs }) => [position, wallMs])).toEqual([
      [0, 2_000],
      [31, 2_000]
    ]);
    expect(compiledPositions(ring, scale)).toEqual([0, 31]);
  });

  it('does not clip steps that are merely a little slower', () => {
    const ring = ringOf(10);
    ring.push(step(10, { deviceMs: 100 }));
    const scale = scaleOf(ring, 48, AREA);
    expect(clippedBars(ring, scale, AREA)).toEqual([]);
    expect(scale.topMs).toBeGreaterThanOrEqual(110);
  });

  it('finds the step under the pointer', () => {
    const ring = ringOf(64);
    const scale = scaleOf(ring, 48, AREA);
    for (const position of [16, 40, 63]) {
      expect(positionAt(scale, AREA, xOf(scale, AREA, position) + 1)).toBe(position);
    }
    expect(positionAt(scale, AREA, AREA.left - 1)).toBeNull();
    expect(positionAt(scale, AREA, AREA.left + AREA.width + 10)).toBeNull();
  });

  it('places labels inside the area and leaves out those that would cover a more important one', () => {
    const placed = placeLabels(
      [
        { x: 300, width: 40 },
        { x: 290, width: 40 },
        { x: 20, width: 40 }
      ],
      AREA
    );
    expect(placed).toEqual([270, null, 20]);
  });

  it.each([
    [0, 1],
    [0.031, 0.035],
    [55, 60],
    [60, 60],
    [99, 100],
    [101, 120]
  ])('rounds %d up to %d', (value, rounded) => {
    expect(roundUp(value)).toBeCloseTo(rounded);
  });
});
