import { describe, expect, it } from 'vitest';
import { step } from '../events/samples.spec-data.js';
import { StepRing } from '../events/step-ring.js';
import { scaleOf, xOf } from './chart-geometry.js';
import { areaOf, paintSteps } from './chart-paint.js';
import { watchedShares } from './shown-split.js';

const COLORS = {
  spans: ['input', 'host', 'compile', 'device', 'gap'],
  text: 'text',
  line: 'line',
  background: 'background',
  font: '10px monospace'
};

interface Filled {
  color: string;
  alpha: number;
  x: number;
}

/** Records fills with their colours; all other canvas calls do nothing. */
class NotingContext {
  readonly filled: Filled[] = [];
  fillStyle = '';
  globalAlpha = 1;

  fillRect(x: number): void {
    this.filled.push({ color: this.fillStyle, alpha: this.globalAlpha, x });
  }
  measureText(text: string): { width: number } {
    return { width: text.length * 6 };
  }
  beginPath(): void {
    // Lines and letters are not checked here.
  }
  moveTo = this.beginPath;
  lineTo = this.beginPath;
  closePath = this.beginPath;
  stroke = this.beginPath;
  fill = this.beginPath;
  fillText = this.beginPath;
}

describe('paintSteps', () => {
  it('paints only unwatched steps paler, in the same colours', () => {
    const steps = new StepRing(8);
    steps.push(step(0));
    steps.push(step(1, { hostMs: 48, deviceMs: 0, gapMs: 0, deviceKnown: false }));
    steps.push(step(2));
    const area = areaOf(400, 108);
    const scale = scaleOf(steps, 8, area);
    const context = new NotingContext();
    paintSteps({
      context: context as unknown as CanvasRenderingContext2D,
      steps,
      scale,
      shares: watchedShares(steps, 8),
      area,
      colors: COLORS,
      highlighted: null
    });
    const bar = (position: number): Filled[] =>
      context.filled.filter(({ x }) => x === xOf(scale, area, position));
    for (const position of [0, 1, 2]) {
      expect(bar(position).map(({ color }) => color)).toEqual(['input', 'host', 'device', 'gap']);
    }
    expect(bar(0).every(({ alpha }) => alpha === 1)).toBe(true);
    expect(bar(1).every(({ alpha }) => alpha < 0.8)).toBe(true);
    expect(bar(2).every(({ alpha }) => alpha === 1)).toBe(true);
    expect(context.globalAlpha).toBe(1);
  });
});
