/** The grid of many devices in React: choice of figure, grid, and a readout for pointer or keyboard. */
import { type JSX, type KeyboardEvent, useEffect, useRef, useState } from 'react';
import type { IDisposable } from '@lumino/disposable';
import type { Drawing, DrawLoop } from '../ui/draw-loop.js';
import { type DeviceTile, tileText } from './tiles.js';
import { trans } from '../text/trans.js';

type HeatFigure = 'duty' | 'tensorCore' | 'memory' | 'bandwidth';

/** 0 to 1; null where unknown. */
function heatOf(tile: DeviceTile, figure: HeatFigure): number | null {
  switch (figure) {
    case 'duty':
      return tile.dutyPercent === null ? null : tile.dutyPercent / 100;
    case 'tensorCore':
      return tile.tensorCorePercent === null ? null : tile.tensorCorePercent / 100;
    case 'memory':
      return tile.memory?.fraction ?? null;
    case 'bandwidth':
      return tile.bandwidthPercent === null ? null : tile.bandwidthPercent / 100;
  }
}

interface GridShape {
  readonly columns: number;
  readonly rows: number;
  /** Distance from one cell to the next. */
  readonly pitch: number;
}

const MAX_CELL = 22;
const MIN_CELL = 7;

/** About as many columns as rows; if they fit, a multiple of eight, because hosts and slices have multiples of eight devices. */
export function gridShape(count: number, width: number): GridShape {
  const most = Math.max(1, Math.floor(width / MIN_CELL));
  const wanted = Math.max(8, Math.ceil(Math.sqrt(count) / 8) * 8);
  const columns = Math.min(most, wanted, Math.max(1, count));
  const pitch = Math.min(MAX_CELL, Math.max(MIN_CELL, Math.floor(width / columns)));
  return { columns, rows: Math.ceil(count / columns), pitch };
}

/** The colour at `heat` (0 to 1) between the stops, which are written `#rrggbb`. */
function rampColour(stops: readonly string[], heat: number): string {
  const place = Math.min(1, Math.max(0, heat)) * (stops.length - 1);
  const from = Math.min(stops.length - 2, Math.floor(place));
  const channels = [1, 3, 5].map(at => {
    const [low = 0, high = 0] = [from, from + 1].map(stop =>
      parseInt(stops[stop]?.slice(at, at + 2) ?? '', 16)
    );
    return Math.round(low + (high - low) * (place - from));
  });
  return `rgb(${channels.join(' ')})`;
}

interface HeatGridOptions {
  readonly canvas: HTMLCanvasElement;
  readonly loop: DrawLoop;
  readonly onHover: (at: number | null) => void;
}

/** Hundreds of devices on one canvas: a cell each, darker for higher figures. */
class HeatGrid implements Drawing, IDisposable {
  constructor(private readonly _options: HeatGridOptions) {
    const { canvas } = _options;
    canvas.addEventListener('pointermove', this._onPointer);
    canvas.addEventListener('pointerleave', this._onPointer);
    this._sizes = new ResizeObserver(entries => {
      this._width = Math.floor(entries.at(-1)?.contentRect.width ?? 0);
      _options.loop.request(this);
    });
    this._sizes.observe(canvas.parentElement ?? canvas);
    this._views = new IntersectionObserver(entries => {
      this._inView = entries.at(-1)?.isIntersecting ?? false;
      _options.loop.wake();
    });
    this._views.observe(canvas);
  }

  get isVisible(): boolean {
    return this._inView && this._width > 0 && !document.hidden;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get shape(): GridShape {
    return gridShape(this._tiles.length, this._width);
  }

  show(tiles: readonly DeviceTile[], figure: HeatFigure, marked: number | null): void {
    this._tiles = tiles;
    this._figure = figure;
    this._marked = marked;
    this._options.loop.request(this);
  }

  draw(): void {
    const { canvas } = this._options;
    const { columns, rows, pitch } = this.shape;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [columns * pitch, rows * pitch];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext('2d');
    if (!context) return;
    const style = getComputedStyle(canvas);
    const colour = (name: string, otherwise: string): string =>
      style.getPropertyValue(name).trim() || otherwise;
    const ramp = [0, 1, 2, 3].map(at => colour(`--jp-tpulab-heat-${at}`, '#808080'));
    const [ground, warn, text] = [
      colour('--jp-tpulab-gap', 'silver'),
      colour('--jp-warn-color0', 'orange'),
      colour('--jp-ui-font-color1', 'black')
    ];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const cell = Math.max(pitch - (pitch > 10 ? 2 : 1), 1);
    this._tiles.forEach((tile, at) => {
      const [x, y] = [(at % columns) * pitch, Math.floor(at / columns) * pitch];
      const heat = heatOf(tile, this._figure);
      if (heat === null) {
        // A hollow cell: unknown differs from zero.
        context.strokeStyle = ground;
        context.lineWidth = 1;
        context.strokeRect(x + 0.5, y + 0.5, cell - 1, cell - 1);
      } else {
        const isFull = tile.memory?.nearlyFull === true && this._figure === 'memory';
        context.fillStyle = isFull ? warn : rampColour(ramp, heat);
        context.fillRect(x, y, cell, cell);
      }
      if (tile.link === 'unusable' || tile.link === 'minor' || (tile.throttlePercent ?? 0) > 0) {
        context.strokeStyle = warn;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, cell - 2, cell - 2);
      }
      if (at === this._marked) {
        context.strokeStyle = text;
        context.lineWidth = 2;
        context.strokeRect(x, y, cell, cell);
      }
    });
  }

  dispose(): void {
    if (this._isDisposed) return;
    this._isDisposed = true;
    this._options.loop.forget(this);
    this._sizes.disconnect();
    this._views.disconnect();
    this._options.canvas.removeEventListener('pointermove', this._onPointer);
    this._options.canvas.removeEventListener('pointerleave', this._onPointer);
  }

  private readonly _onPointer = (event: PointerEvent): void => {
    if (event.type === 'pointerleave') {
      this._options.onHover(null);
      return;
    }
    const { columns, pitch } = this.shape;
    const [column, row] = [Math.floor(event.offsetX / pitch), Math.floor(event.offsetY / pitch)];
    const at = row * columns + column;
    this._options.onHover(column < columns && at >= 0 && at < this._tiles.length ? at : null);
  };

  private readonly _sizes: ResizeObserver;
  private readonly _views: IntersectionObserver;
  private _tiles: readonly DeviceTile[] = [];
  private _figure: HeatFigure = 'duty';
  private _marked: number | null = null;
  private _width = 0;
  private _inView = false;
  private _isDisposed = false;
}

interface HeatViewProps {
  readonly tiles: readonly DeviceTile[];
  readonly loop: DrawLoop;
}

const FIGURES: readonly HeatFigure[] = ['duty', 'tensorCore', 'memory', 'bandwidth'];

export function HeatView({ tiles, loop }: HeatViewProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const grid = useRef<HeatGrid | null>(null);
  const known = FIGURES.filter(figure => tiles.some(tile => heatOf(tile, figure) !== null));
  const [wanted, setWanted] = useState<HeatFigure>('duty');
  const figure = known.includes(wanted) ? wanted : (known[0] ?? 'duty');
  const [marked, setMarked] = useState<number | null>(null);
  useEffect(() => {
    if (!canvas.current) return;
    const made = new HeatGrid({ canvas: canvas.current, loop, onHover: setMarked });
    grid.current = made;
    return () => {
      grid.current = null;
      made.dispose();
    };
  }, [loop]);
  useEffect(() => grid.current?.show(tiles, figure, marked));
  const tile = marked === null ? undefined : tiles[marked];
  const summary = heatSummary(tiles, figure);
  const onKey = (event: KeyboardEvent): void => {
    const columns = grid.current?.shape.columns ?? 1;
    const steps: Record<string, number> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -columns,
      ArrowDown: columns,
      Home: -tiles.length,
      End: tiles.length
    };
    const step = steps[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setMarked(at => Math.min(tiles.length - 1, Math.max(0, (at ?? (step > 0 ? -1 : 0)) + step)));
    } else if (event.key === 'Escape') {
      setMarked(null);
    }
  };
  return (
    <div className="jp-TPULabHeat">
      {known.length > 1 ? (
        <div className="jp-TPULab-choice" role="group" aria-label={trans.__('What the cells show')}>
          {known.map(one => (
            <button
              key={one}
              type="button"
              className="jp-TPULab-option"
              aria-pressed={one === figure}
              onClick={() => setWanted(one)}
            >
              {figureName(one)}
            </button>
          ))}
        </div>
      ) : null}
      <canvas
        ref={canvas}
        className="jp-TPULabHeat-canvas"
        role="slider"
        tabIndex={0}
        aria-label={trans.__('Devices, one cell each')}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, tiles.length - 1)}
        aria-valuenow={marked ?? 0}
        aria-valuetext={tile ? tileText(tile) : summary}
        onKeyDown={onKey}
      />
      <div className="jp-TPULabHeat-scale" aria-hidden="true">
        <span>0%</span>
        <span className="jp-TPULabHeat-ramp" />
        <span>100%</span>
        <span className="jp-TPULabHeat-unknown" />
        <span>{trans.__('unknown')}</span>
      </div>
      <p className="jp-TPULabHeat-readout" aria-hidden="true">
        {tile ? tileText(tile) : summary}
      </p>
    </div>
  );
}

function figureName(figure: HeatFigure): string {
  switch (figure) {
    case 'duty':
      return trans.__('duty cycle');
    case 'tensorCore':
      return trans.__('TensorCore');
    case 'memory':
      return trans.__('HBM');
    case 'bandwidth':
      return trans.__('HBM bandwidth');
  }
}

/** `duty cycle 79 to 91%, mean 87%; lowest: device 7`. */
function heatSummary(tiles: readonly DeviceTile[], figure: HeatFigure): string {
  const known = tiles.flatMap(tile => {
    const heat = heatOf(tile, figure);
    return heat === null ? [] : [{ id: tile.id, heat }];
  });
  const [first] = known;
  if (!first) return trans.__('The utilisation of these devices is unknown.');
  let [low, high, sum] = [first, first, 0];
  for (const one of known) {
    low = one.heat < low.heat ? one : low;
    high = one.heat > high.heat ? one : high;
    sum += one.heat;
  }
  return trans.__(
    '%1 from %2% (device %3) to %4% (device %5), mean %6%',
    figureName(figure),
    Math.round(low.heat * 100),
    low.id,
    Math.round(high.heat * 100),
    high.id,
    Math.round((sum / known.length) * 100)
  );
}
