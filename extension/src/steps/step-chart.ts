/** The chart of the newest steps: a canvas that follows its size, its visibility and the theme. */
import type { IDisposable } from '@lumino/disposable';
import type { StepRing } from '../events/step-ring.js';
import { SPANS } from '../events/step-ring.js';
import { type ChartColors, readColors } from './chart-colors.js';
import { type ChartScale, positionAt, scaleOf } from './chart-geometry.js';
import { areaOf, paintSteps, type PlacedMark } from './chart-paint.js';
import type { Drawing, DrawLoop } from '../ui/draw-loop.js';
import { hatchOf } from './hatch.js';
import { watchedShares } from './shown-split.js';

const IDLE = SPANS.indexOf('gap');

export interface StepChartOptions {
  readonly canvas: HTMLCanvasElement;
  readonly loop: DrawLoop;
  /** Told of the step under the pointer, as a position in the ring; null when there is none. */
  readonly onHover: (position: number | null) => void;
}

export class StepChart implements Drawing, IDisposable {
  constructor(options: StepChartOptions) {
    this._canvas = options.canvas;
    this._loop = options.loop;
    this._onHover = options.onHover;
    this._canvas.addEventListener('pointermove', this._onPointer);
    this._canvas.addEventListener('pointerleave', this._onPointer);
    this._sizes = new ResizeObserver(entries => this._resize(entries));
    this._sizes.observe(this._canvas);
    this._views = new IntersectionObserver(entries => this._seen(entries));
    this._views.observe(this._canvas);
    // JupyterLab names its theme on the body; the variables change with it.
    this._themes = new MutationObserver(() => {
      this._colors = null;
      this._loop.request(this);
    });
    this._themes.observe(document.body, {
      attributes: true,
      attributeFilter: ['data-jp-theme-name', 'data-jp-theme-light']
    });
  }

  get isVisible(): boolean {
    return this._inView && this._width > 0 && !document.hidden;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Shows these steps; call it again when there are more. @param behind newest steps that are left out */
  show(steps: StepRing, window: number, behind = 0, marks: readonly PlacedMark[] = []): void {
    this._steps = steps;
    this._window = window;
    this._behind = behind;
    this._marks = marks;
    this._loop.request(this);
  }

  /** Puts the cursor on a step, as the pointer would; null takes it away. */
  point(position: number | null): void {
    this._pointed = position;
    this._pointerX = null;
    this._loop.request(this);
  }

  /** Positions in view, the first and the one after the last. */
  get shown(): readonly [number, number] {
    return this._scale ? [this._scale.first, this._scale.first + this._scale.count] : [0, 0];
  }

  draw(): void {
    const context = this._canvas.getContext('2d');
    if (!context || !this._steps) {
      return;
    }
    const ratio = window.devicePixelRatio || 1;
    if (this._colors === null || this._hatchRatio !== ratio) {
      this._colors ??= readColors(this._canvas);
      this._hatch = hatchOf(context, this._colors, IDLE, ratio);
      this._hatchRatio = ratio;
    }
    const area = areaOf(this._width, this._height);
    this._scale = scaleOf(this._steps, this._window, area, this._behind);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this._width, this._height);
    paintSteps({
      context,
      hatch: this._hatch,
      steps: this._steps,
      scale: this._scale,
      shares: watchedShares(this._steps, this._window),
      area,
      colors: this._colors,
      marks: this._marks,
      highlighted: this._highlighted()
    });
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._loop.forget(this);
    this._sizes.disconnect();
    this._views.disconnect();
    this._themes.disconnect();
    this._canvas.removeEventListener('pointermove', this._onPointer);
    this._canvas.removeEventListener('pointerleave', this._onPointer);
  }

  private readonly _onPointer = (event: PointerEvent): void => {
    const area = areaOf(this._width, this._height);
    this._pointerX = event.type === 'pointermove' ? event.offsetX : null;
    this._pointed = null;
    this._onHover(
      this._scale && this._pointerX !== null ? positionAt(this._scale, area, this._pointerX) : null
    );
    this._loop.request(this);
  };

  private _highlighted(): number | null {
    if (this._pointed !== null) {
      return this._pointed;
    }
    const area = areaOf(this._width, this._height);
    return this._scale && this._pointerX !== null ? positionAt(this._scale, area, this._pointerX) : null;
  }

  private _resize(entries: readonly ResizeObserverEntry[]): void {
    const box = entries.at(-1)?.contentRect;
    if (!box) {
      return;
    }
    this._width = Math.floor(box.width);
    this._height = Math.floor(box.height);
    const ratio = window.devicePixelRatio || 1;
    this._canvas.width = Math.round(this._width * ratio);
    this._canvas.height = Math.round(this._height * ratio);
    this._loop.request(this);
  }

  private _seen(entries: readonly IntersectionObserverEntry[]): void {
    this._inView = entries.at(-1)?.isIntersecting ?? false;
    this._loop.wake();
  }

  private readonly _canvas: HTMLCanvasElement;
  private readonly _loop: DrawLoop;
  private readonly _onHover: (position: number | null) => void;
  private readonly _sizes: ResizeObserver;
  private readonly _views: IntersectionObserver;
  private readonly _themes: MutationObserver;
  private _colors: ChartColors | null = null;
  private _hatch: CanvasPattern | null = null;
  private _hatchRatio = 0;
  private _steps: StepRing | null = null;
  private _scale: ChartScale | null = null;
  private _window = 0;
  private _behind = 0;
  private _marks: readonly PlacedMark[] = [];
  private _pointed: number | null = null;
  private _width = 0;
  private _height = 0;
  private _pointerX: number | null = null;
  private _inView = false;
  private _isDisposed = false;
}
