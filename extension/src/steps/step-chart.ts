/** The chart of the newest steps: a canvas that follows its size, its visibility and the theme. */
import type { StepRing } from '../events/step-ring.js';
import { SPANS } from '../events/step-ring.js';
import { type ChartColors, readColors } from './chart-colors.js';
import { type ChartScale, positionAt, scaleOf } from './chart-geometry.js';
import { areaOf, paintSteps, type PlacedMark } from './chart-paint.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { SizedDrawing } from '../ui/sized-drawing.js';
import { hatchOf } from './hatch.js';
import { watchedShares } from './shown-split.js';

const IDLE = SPANS.indexOf('gap');

interface StepChartOptions {
  readonly canvas: HTMLCanvasElement;
  readonly loop: DrawLoop;
  /** Receives the step under the pointer, as a position in the ring; null when there is none. */
  readonly onHover: (position: number | null) => void;
}

export class StepChart extends SizedDrawing {
  constructor(options: StepChartOptions) {
    super(options.loop, options.canvas);
    this._canvas = options.canvas;
    this._onHover = options.onHover;
    this._canvas.addEventListener('pointermove', this._onPointer);
    this._canvas.addEventListener('pointerleave', this._onPointer);
  }

  /** Shows these steps; call it again when there are more. @param behind number of newest steps that are omitted */
  show(steps: StepRing, window: number, behind = 0, marks: readonly PlacedMark[] = []): void {
    this._steps = steps;
    this._window = window;
    this._behind = behind;
    this._marks = marks;
    this.loop.request(this);
  }

  /** Puts the cursor on a step, as the pointer would; null removes it. */
  point(position: number | null): void {
    this._hoveredStep = position;
    this._pointerX = null;
    this.loop.request(this);
  }

  /** Visible positions, the first and the one after the last. */
  get shown(): readonly [number, number] {
    return this._scale ? [this._scale.first, this._scale.first + this._scale.count] : [0, 0];
  }

  override draw(): void {
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
    const area = areaOf(this.width, this.height);
    this._scale = scaleOf(this._steps, this._window, area, this._behind);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
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

  override dispose(): void {
    super.dispose();
    this._canvas.removeEventListener('pointermove', this._onPointer);
    this._canvas.removeEventListener('pointerleave', this._onPointer);
  }

  private readonly _onPointer = (event: PointerEvent): void => {
    const area = areaOf(this.width, this.height);
    this._pointerX = event.type === 'pointermove' ? event.offsetX : null;
    this._hoveredStep = null;
    this._onHover(
      this._scale && this._pointerX !== null ? positionAt(this._scale, area, this._pointerX) : null
    );
    this.loop.request(this);
  };

  private _highlighted(): number | null {
    if (this._hoveredStep !== null) {
      return this._hoveredStep;
    }
    const area = areaOf(this.width, this.height);
    return this._scale && this._pointerX !== null ? positionAt(this._scale, area, this._pointerX) : null;
  }

  protected override renew(): void {
    this._colors = null;
    super.renew();
  }

  protected override resized(): void {
    const ratio = window.devicePixelRatio || 1;
    this._canvas.width = Math.round(this.width * ratio);
    this._canvas.height = Math.round(this.height * ratio);
    super.resized();
  }

  private readonly _canvas: HTMLCanvasElement;
  private readonly _onHover: (position: number | null) => void;
  private _colors: ChartColors | null = null;
  private _hatch: CanvasPattern | null = null;
  private _hatchRatio = 0;
  private _steps: StepRing | null = null;
  private _scale: ChartScale | null = null;
  private _window = 0;
  private _behind = 0;
  private _marks: readonly PlacedMark[] = [];
  private _hoveredStep: number | null = null;
  private _pointerX: number | null = null;
}
