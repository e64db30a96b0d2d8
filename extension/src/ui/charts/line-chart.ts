/** A line chart of some series on one canvas: uPlot, drawn by the page's one loop, in the colours of the theme. */
import type uPlot from 'uplot';
import { gridColor } from '../grid-color.js';
import type { DrawLoop } from '../draw-loop.js';
import { SizedDrawing } from '../sized-drawing.js';

export interface LineSeries {
  /** Custom property of the theme, for example `--jp-brand-color1`. */
  readonly colour: string;
  /** Lengths of dash and gap in pixels: lines can be distinguished without their colours too. */
  readonly dash?: readonly number[];
  /** A pale area below the line. */
  readonly fill?: boolean;
  /** Joins points across rows that have none of this series: for several runs on one axis. */
  readonly joinsGaps?: boolean;
}

interface LineChartOptions {
  readonly host: HTMLElement;
  readonly loop: DrawLoop;
  readonly series: readonly LineSeries[];
  /** Labels of the x axis, for the values at its ticks. */
  readonly xText: (value: number) => string;
  readonly yText: (value: number) => string;
  /** Ticks of the y axis where they are not round decimal numbers: for the visible range, and the number that fits. */
  readonly yTicks?: (min: number, max: number, most: number) => number[];
  /** The y axis for the visible range; `null` where there is nothing. */
  readonly yRange?: (min: number | null, max: number | null) => [number, number];
  /** Logarithmic y axis; uPlot omits values that are not above 0. */
  readonly logarithmic?: boolean;
  /** Receives the row under pointer or keyboard; null when there is none. */
  readonly onCursor?: (row: number | null) => void;
  /** Receives a range chosen by dragging; null when a double click resets it. */
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
/** Minimum distance between two labels of the y axis. */
const Y_SPACE = 24;
/** Half a line of text: the first label of the x axis may begin below the lowest one of the y axis. */
const X_GAP = 7;

export class LineChart extends SizedDrawing {
  constructor(private readonly _options: LineChartOptions) {
    super(_options.loop, _options.host);
    this._contrast = typeof matchMedia === 'function' ? matchMedia('(forced-colors: active)') : null;
    this._contrast?.addEventListener('change', this._onContrast);
  }

  /**
   * The arrays are stored, not copied; pass new arrays, or the same arrays grown, each time.
   *
   * @param failedFrom where on the x axis a line marks the start of the failure
   */
  show(data: LineData, failedFrom: number | null = null): void {
    this._data = data;
    this._failedFrom = failedFrom;
    this._isNew = true;
    this.loop.request(this);
  }

  /** Puts the cursor on a row, as the pointer would; null removes it. */
  setCursor(row: number | null): void {
    const chart = this._chart;
    const x = row === null ? undefined : this._data?.[0]?.[row];
    if (!chart || x === undefined || x === null) {
      chart?.setCursor({ left: -10, top: -10 });
      return;
    }
    chart.setCursor({ left: chart.valToPos(x, 'x'), top: chart.over.clientHeight / 2 });
  }

  override draw(): void {
    if (!this._data) return;
    if (!library) {
      // If the chunk cannot be loaded, the chart stays empty; the figures beside it are still visible.
      void loadLibrary().then(
        () => this.loop.request(this),
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

  override dispose(): void {
    super.dispose();
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
      width: this.width,
      height: this.height,
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
              width: this.width - AXIS_WIDTH - PADDING_RIGHT,
              paddingRight: PADDING_RIGHT
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
            ? {
                splits: (_: uPlot, __: number, min: number, max: number) => yTicks(min, max, this._maxLabels)
              }
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
    if (onRange) chart.over.addEventListener('dblclick', () => onRange(null));
    return chart;
  }

  /** Number of labels that fit on the y axis: one at its lower end, and one more for each distance. */
  private get _maxLabels(): number {
    return 1 + Math.max(1, Math.floor((this.height - AXIS_HEIGHT - PADDING_TOP) / Y_SPACE));
  }

  private _markFailure(chart: uPlot, stroke: string): void {
    if (this._failedFrom === null) return;
    const { ctx, bbox } = chart;
    const x = Math.round(chart.valToPos(this._failedFrom, 'x', true));
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

  protected override renew(): void {
    this._chart?.destroy();
    this._chart = null;
    super.renew();
  }

  private readonly _onContrast = (): void => this.renew();

  protected override resized(): void {
    if (this.width > 0) {
      this._chart?.setSize({ width: this.width, height: this.height });
      this.loop.wake();
    }
  }

  private readonly _contrast: MediaQueryList | null;
  private _chart: uPlot | null = null;
  private _data: LineData | null = null;
  private _failedFrom: number | null = null;
  private _isNew = false;
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

/** Labels below the x axis, each centred below its tick. */

/** A letter of the axes' font, pixels. */
const LETTER_WIDTH = 6;

interface AxisRoom {
  /** Values at the ends of the axis; unknown before there are any. */
  readonly min?: number | undefined;
  readonly max?: number | undefined;
  /** Pixels from end to end, and right of the axis. */
  readonly width: number;
  readonly paddingRight: number;
}

/** The label of a tick, or none where the edge of the chart would cut it off: a truncated time looks like another time. */
export function fittingLabel(
  text: string,
  tick: number,
  { min, max, width, paddingRight }: AxisRoom
): string {
  if (min === undefined || max === undefined || max <= min) return text;
  const toEdge = ((max - tick) / (max - min)) * width + paddingRight;
  return (text.length * LETTER_WIDTH) / 2 <= toEdge ? text : '';
}
