/** A line chart of some series on one canvas: uPlot, drawn by the page's one loop, in the colours of the theme. */
import type { IDisposable } from '@lumino/disposable';
import type uPlot from 'uplot';
import { fittingLabel } from './axis-label.js';
import { gridColor } from '../grid-color.js';
import type { Drawing, DrawLoop } from '../draw-loop.js';

export interface LineSeries {
  /** Custom property of the theme, for example `--jp-brand-color1`. */
  readonly colour: string;
  /** Lengths of dash and gap in pixels: lines are told apart without their colours too. */
  readonly dash?: readonly number[];
  /** A pale area below the line. */
  readonly fill?: boolean;
  /** Joins points across rows that have none of this series: for several runs on one axis. */
  readonly joinsGaps?: boolean;
}

export interface LineChartOptions {
  readonly host: HTMLElement;
  readonly loop: DrawLoop;
  readonly series: readonly LineSeries[];
  /** Labels of the x axis, for the values at its ticks. */
  readonly xText: (value: number) => string;
  readonly yText: (value: number) => string;
  /** Ticks of the y axis where they are not round numbers of ten: for the range in view, and how many there is room for. */
  readonly yTicks?: (min: number, max: number, most: number) => number[];
  /** The y axis for what is in view; `null` where there is nothing. */
  readonly yRange?: (min: number | null, max: number | null) => [number, number];
  /** Logarithmic y axis; values that are not above 0 are left out by uPlot. */
  readonly logarithmic?: boolean;
  /** Told of the row under pointer or keyboard; null when there is none. */
  readonly onCursor?: (row: number | null) => void;
  /** Told of a range chosen by dragging; null when it is taken back by a double click. */
  readonly onRange?: (range: readonly [number, number] | null) => void;
}

/** Rows of equal length: x first, then one column for each series. Null is a gap. */
export type LineData = readonly (readonly (number | null)[] | Float64Array)[];

/** Loaded with the first chart: most pages start without one. */
let library: typeof uPlot | null = null;
let loading: Promise<void> | null = null;

function loadLibrary(): Promise<void> {
  return (loading ??= import('uplot').then(module => {
    library = module.default;
  }));
}

/** uPlot declares an enum of these, but exports none. */
const LOGARITHMIC: uPlot.Scale.Distr = 3;
const AXIS_WIDTH = 52;
const AXIS_HEIGHT = 20;
const PADDING_TOP = 6;
const PADDING_RIGHT = 6;
/** Least distance of two labels of the y axis. */
const Y_SPACE = 24;
/** Half a line of text: the first label of the x axis may begin below the lowest one of the y axis. */
const X_GAP = 7;

export class LineChart implements Drawing, IDisposable {
  constructor(private readonly _options: LineChartOptions) {
    const { host } = _options;
    this._sizes = new ResizeObserver(entries => this._resize(entries));
    this._sizes.observe(host);
    this._views = new IntersectionObserver(entries => this._seen(entries));
    this._views.observe(host);
    // JupyterLab names its theme on the body; a canvas must be painted anew.
    this._themes = new MutationObserver(() => this._renew());
    this._themes.observe(document.body, {
      attributes: true,
      attributeFilter: ['data-jp-theme-name', 'data-jp-theme-light']
    });
    this._contrast = typeof matchMedia === 'function' ? matchMedia('(forced-colors: active)') : null;
    this._contrast?.addEventListener('change', this._onContrast);
  }

  get isVisible(): boolean {
    return this._inView && this._width > 0 && !document.hidden;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /**
   * The arrays are kept, not copied; give new ones, or the same ones grown, each time.
   *
   * @param failsFrom where on the x axis the failure begins that a line marks
   */
  show(data: LineData, failsFrom: number | null = null): void {
    this._data = data;
    this._failsFrom = failsFrom;
    this._isNew = true;
    this._options.loop.request(this);
  }

  /** Puts the cursor on a row, as the pointer would; null takes it away. */
  setCursor(row: number | null): void {
    const chart = this._chart;
    const x = row === null ? undefined : this._data?.[0]?.[row];
    if (!chart || x === undefined || x === null) {
      chart?.setCursor({ left: -10, top: -10 });
      return;
    }
    chart.setCursor({ left: chart.valToPos(x, 'x'), top: chart.over.clientHeight / 2 });
  }

  draw(): void {
    if (!this._data) {
      return;
    }
    if (!library) {
      // A chunk that cannot be loaded leaves the chart empty; the figures beside it are still there.
      void loadLibrary().then(
        () => this._options.loop.request(this),
        () => undefined
      );
      return;
    }
    const chart = (this._chart ??= this._make(library));
    if (this._isNew) {
      this._isNew = false;
      chart.setData(this._data as uPlot.AlignedData);
    } else {
      chart.redraw(false);
    }
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._options.loop.forget(this);
    this._sizes.disconnect();
    this._views.disconnect();
    this._themes.disconnect();
    this._contrast?.removeEventListener('change', this._onContrast);
    this._chart?.destroy();
    this._chart = null;
  }

  private _make(Chart: typeof uPlot): uPlot {
    const { host, series, xText, yText, yTicks, yRange, logarithmic, onRange } = this._options;
    const style = getComputedStyle(host);
    const colour = (name: string, otherwise: string): string =>
      style.getPropertyValue(name).trim() || otherwise;
    const font = `10px ${colour('--jp-code-font-family', 'monospace')}`;
    const axis = {
      stroke: colour('--jp-ui-font-color2', 'gray'),
      font,
      grid: { stroke: gridColor(colour('--jp-ui-font-color1', 'gray')), width: 1 },
      ticks: { show: false }
    };
    const options: uPlot.Options = {
      width: this._width,
      height: this._height,
      padding: [PADDING_TOP, PADDING_RIGHT, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        points: { size: 5 },
        drag: { x: onRange !== undefined, y: false, setScale: false }
      },
      scales: {
        x: { time: false },
        y: {
          ...(logarithmic ? { distr: LOGARITHMIC } : {}),
          ...(yRange ? { range: (_: uPlot, min: number | null, max: number | null) => yRange(min, max) } : {})
        }
      },
      axes: [
        {
          ...axis,
          size: AXIS_HEIGHT,
          space: 64,
          values: ({ scales: { x } }, ticks) => {
            const room = {
              min: x?.min,
              max: x?.max,
              width: this._width - AXIS_WIDTH - PADDING_RIGHT,
              beyond: PADDING_RIGHT
            };
            return ticks.map(tick => fittingLabel(xText(tick), tick, room));
          },
          gap: X_GAP
        },
        {
          ...axis,
          size: AXIS_WIDTH,
          space: Y_SPACE,
          ...(yTicks
            ? { splits: (_: uPlot, __: number, min: number, max: number) => yTicks(min, max, this._room) }
            : {}),
          values: (_, ticks) => ticks.map(tick => ((tick as number | null) === null ? '' : yText(tick))),
          gap: 4
        }
      ],
      series: [{}, ...series.map(one => lineOf(one, colour(one.colour, 'gray')))],
      hooks: {
        setCursor: [({ cursor }) => this._options.onCursor?.(cursor.idx ?? null)],
        setSelect: [chart => this._selected(chart)],
        draw: [chart => this._markFailure(chart, colour('--jp-error-color1', 'red'))]
      }
    };
    const chart = new Chart(options, (this._data ?? [[]]) as uPlot.AlignedData, host);
    this._isNew = false;
    if (onRange) {
      chart.over.addEventListener('dblclick', () => onRange(null));
    }
    return chart;
  }

  /** Labels that there is room for on the y axis: one at its lower end, and one more for each distance. */
  private get _room(): number {
    return 1 + Math.max(1, Math.floor((this._height - AXIS_HEIGHT - PADDING_TOP) / Y_SPACE));
  }

  private _markFailure(chart: uPlot, stroke: string): void {
    if (this._failsFrom === null) {
      return;
    }
    const { ctx, bbox } = chart;
    const x = Math.round(chart.valToPos(this._failsFrom, 'x', true));
    ctx.save();
    ctx.strokeStyle = stroke;
    ctx.lineWidth = Math.max(1, devicePixelRatio);
    ctx.setLineDash([4 * ctx.lineWidth, 2 * ctx.lineWidth]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  private _selected(chart: uPlot): void {
    const { left, width } = chart.select;
    if (width > 2) {
      this._options.onRange?.([chart.posToVal(left, 'x'), chart.posToVal(left + width, 'x')]);
      chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    }
  }

  private _renew(): void {
    this._chart?.destroy();
    this._chart = null;
    this._options.loop.request(this);
  }

  private readonly _onContrast = (): void => this._renew();

  private _resize(entries: readonly ResizeObserverEntry[]): void {
    const box = entries.at(-1)?.contentRect;
    if (!box) {
      return;
    }
    this._width = Math.floor(box.width);
    this._height = Math.floor(box.height);
    if (this._width > 0) {
      this._chart?.setSize({ width: this._width, height: this._height });
      this._options.loop.wake();
    }
  }

  private _seen(entries: readonly IntersectionObserverEntry[]): void {
    this._inView = entries.at(-1)?.isIntersecting ?? false;
    this._options.loop.wake();
  }

  private readonly _sizes: ResizeObserver;
  private readonly _views: IntersectionObserver;
  private readonly _themes: MutationObserver;
  private readonly _contrast: MediaQueryList | null;
  private _chart: uPlot | null = null;
  private _data: LineData | null = null;
  private _failsFrom: number | null = null;
  private _isNew = false;
  private _width = 0;
  private _height = 0;
  private _inView = false;
  private _isDisposed = false;
}

function lineOf({ dash, fill, joinsGaps = false }: LineSeries, stroke: string): uPlot.Series {
  return {
    stroke,
    // Wider lines are stroked as areas, which takes a page without a GPU three times as long (bench/panels).
    width: 1,
    points: { show: false },
    spanGaps: joinsGaps,
    ...(dash ? { dash: [...dash] } : {}),
    ...(fill ? { fill: `color-mix(in srgb, ${stroke} 14%, transparent)` } : {})
  };
}
