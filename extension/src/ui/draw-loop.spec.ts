import { beforeEach, describe, expect, it } from 'vitest';
import { DrawLoop, type FrameSource } from './draw-loop.js';

/** A window with a clock that the test advances. */
class Frames implements FrameSource {
  nowMs = 1_000;
  frames = new Map<number, () => void>();
  timers = new Map<number, { at: number; callback: () => void }>();
  readonly performance = { now: (): number => this.nowMs };
  private _handle = 0;

  requestAnimationFrame(callback: () => void): number {
    this.frames.set((this._handle += 1), callback);
    return this._handle;
  }

  cancelAnimationFrame(handle: number): void {
    this.frames.delete(handle);
  }

  setTimeout(callback: () => void, ms: number): number {
    this.timers.set((this._handle += 1), { at: this.nowMs + ms, callback });
    return this._handle;
  }

  clearTimeout(handle: number | undefined): void {
    this.timers.delete(handle ?? -1);
  }

  get idle(): boolean {
    return this.frames.size === 0 && this.timers.size === 0;
  }

  /** Advances the time in frames of 16 ms. */
  pass(ms: number): void {
    for (const end = this.nowMs + ms; this.nowMs < end; this.nowMs += 16) {
      for (const [handle, { at, callback }] of [...this.timers]) {
        if (at <= this.nowMs) {
          this.timers.delete(handle);
          callback();
        }
      }
      const due = [...this.frames.values()];
      this.frames.clear();
      due.forEach(callback => callback());
    }
  }
}

class Counter {
  isVisible = true;
  drawn = 0;
  draw(): void {
    this.drawn += 1;
  }
}

describe('DrawLoop', () => {
  let frames: Frames;
  let loop: DrawLoop;

  beforeEach(() => {
    frames = new Frames();
    loop = new DrawLoop(frames);
  });

  it('draws all that is due in one frame, once, and then rests', () => {
    const charts = [new Counter(), new Counter()];
    charts.forEach(chart => {
      loop.request(chart);
      loop.request(chart);
    });
    frames.pass(2_000);
    expect(charts.map(chart => chart.drawn)).toEqual([1, 1]);
    expect(loop.framesDrawn).toBe(1);
    expect(frames.idle).toBe(true);
  });

  it('draws no faster than its limit, however often it is requested', () => {
    const chart = new Counter();
    loop.drawsPerSecond = 5;
    for (let at = 0; at < 125; at += 1) {
      loop.request(chart);
      frames.pass(16);
    }
    expect(chart.drawn).toBeGreaterThanOrEqual(9);
    expect(chart.drawn).toBeLessThanOrEqual(11);
  });

  it('does nothing at all for a hidden chart and draws it once when it is shown', () => {
    const chart = new Counter();
    chart.isVisible = false;
    loop.request(chart);
    expect(frames.idle).toBe(true);
    chart.isVisible = true;
    loop.wake();
    frames.pass(100);
    expect(chart.drawn).toBe(1);
  });

  it('continues to draw the others while one is hidden', () => {
    const [shown, hidden] = [new Counter(), new Counter()];
    hidden.isVisible = false;
    loop.request(hidden);
    loop.request(shown);
    frames.pass(1_000);
    expect([shown.drawn, hidden.drawn]).toEqual([1, 0]);
    expect(frames.idle).toBe(true);
  });

  it('draws nothing after it was forgotten or disposed', () => {
    const chart = new Counter();
    loop.request(chart);
    loop.forget(chart);
    frames.pass(500);
    loop.request(chart);
    loop.dispose();
    frames.pass(500);
    expect(chart.drawn).toBe(0);
    expect(frames.idle).toBe(true);
  });
});
