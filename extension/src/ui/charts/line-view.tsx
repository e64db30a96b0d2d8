/** A line chart in React: heading, chart, and a readout for the pointer or the keyboard's cursor. */
import { type JSX, type KeyboardEvent, useCallback, useEffect, useRef, useState } from 'react';
import type { DrawLoop } from '../draw-loop.js';
import { LineChart, type LineData, type LineSeries } from './line-chart.js';

export interface LineViewSeries extends LineSeries {
  readonly name: string;
}

export interface LineTicks {
  readonly at: (min: number, max: number, most: number) => number[];
  readonly text: (value: number) => string;
}

interface LineViewProps {
  readonly title: string;
  /** At the right of the heading: the newest figure. */
  readonly meta: string;
  readonly series: readonly LineViewSeries[];
  readonly data: LineData;
  /** The position on the x axis after which there are no figures, which is a failure; the heading names it. */
  readonly failedFrom?: number | null;
  /** Changes when `data` has; then the chart is drawn again. */
  readonly version: number | string;
  readonly loop: DrawLoop;
  readonly xText: (value: number) => string;
  readonly yText: (value: number) => string;
  /** Ticks of the y axis and their labels, where they differ from the chart's own. */
  readonly yTicks?: LineTicks;
  readonly yRange?: (min: number | null, max: number | null) => [number, number];
  readonly logarithmic?: boolean;
  readonly onRange?: (range: readonly [number, number] | null) => void;
  /** Cursor position of another chart with the same axis. */
  readonly cursorX?: number | null;
  readonly onCursorX?: (x: number | null) => void;
}

export function LineView(props: LineViewProps): JSX.Element {
  const { title, meta, series, data, version, loop, xText, yText } = props;
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<LineChart | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [cursor, setCursor] = useState<number | null>(null);
  // A newly drawn chart (the first time, when it comes into view) has no pointer over it; this does not reset the keyboard's row.
  const isKeyed = useRef(false);
  const isFollowing = useRef(false);
  // Another set of lines is another chart; new figures are not.
  const shape = `${series.map(one => `${one.name} ${one.colour} ${one.fill ?? ''}`).join('|')} ${props.logarithmic ?? ''} ${props.onRange !== undefined}`;
  useEffect(() => {
    if (!host.current) return;
    const { series: lines, yTicks, yRange, logarithmic, onRange } = latest.current;
    const made = new LineChart({
      host: host.current,
      loop,
      series: lines,
      xText: value => latest.current.xText(value),
      yText: value => (latest.current.yTicks?.text ?? latest.current.yText)(value),
      onCursor: row => {
        if (row === null && isKeyed.current) return;
        setCursor(row);
        if (!isFollowing.current) {
          latest.current.onCursorX?.(row === null ? null : (latest.current.data[0]?.[row] ?? null));
        }
      },
      ...(yTicks ? { yTicks: yTicks.at } : {}),
      ...(yRange ? { yRange } : {}),
      ...(logarithmic === undefined ? {} : { logarithmic }),
      ...(onRange ? { onRange: range => latest.current.onRange?.(range) } : {})
    });
    chart.current = made;
    made.show(latest.current.data, latest.current.failedFrom ?? null);
    return () => {
      chart.current = null;
      made.dispose();
    };
  }, [loop, shape]);
  useEffect(() => chart.current?.show(latest.current.data, latest.current.failedFrom ?? null), [version]);
  const rows = data[0]?.length ?? 0;
  const { cursorX } = props;
  useEffect(() => {
    if (cursorX === undefined) return;
    isFollowing.current = true;
    const row = cursorX === null ? null : nearestRow(latest.current.data[0] ?? [], cursorX);
    setCursor(row);
    chart.current?.setCursor(row);
    isFollowing.current = false;
  }, [cursorX]);
  const onKey = useCallback((event: KeyboardEvent): void => {
    const count = latest.current.data[0]?.length ?? 0;
    setCursor(at => {
      const next = movedCursor(event.key, at, count);
      if (next === undefined) return at;
      event.preventDefault();
      isKeyed.current = next !== null;
      chart.current?.setCursor(next);
      return next;
    });
  }, []);
  const release = useCallback((): void => {
    isKeyed.current = false;
  }, []);
  const readout = cursor === null || cursor >= rows ? '' : readoutText(cursor, series, data, xText, yText);
  return (
    <figure className="jp-TPULabLine">
      <figcaption className="jp-TPULab-row">
        <span className="jp-TPULab-quiet">{title}</span>
        <span
          className={`jp-TPULab-number${(props.failedFrom ?? null) === null ? '' : ' jp-TPULab-failure'}`}
        >
          {meta}
        </span>
      </figcaption>
      <div
        ref={host}
        className="jp-TPULabLine-chart"
        role="slider"
        tabIndex={0}
        aria-label={title}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, rows - 1)}
        aria-valuenow={cursor ?? Math.max(0, rows - 1)}
        aria-valuetext={readout || meta}
        onKeyDown={onKey}
        onBlur={release}
        onPointerMove={release}
      />
      <div className="jp-TPULabLine-readout" aria-hidden="true">
        {readout ? <span>{readout}</span> : series.length > 1 ? <Names series={series} /> : null}
      </div>
    </figure>
  );
}

function Names({ series }: { readonly series: readonly LineViewSeries[] }): JSX.Element {
  return (
    <>
      {series.map(({ name, colour, dash }) => (
        <span key={name} className="jp-TPULabLine-name">
          <svg viewBox="0 0 16 4" className="jp-TPULabLine-key">
            <line x1="0" y1="2" x2="16" y2="2" stroke={`var(${colour})`} strokeDasharray={dash?.join(' ')} />
          </svg>
          {name}
        </span>
      ))}
    </>
  );
}

function nearestRow(xs: ArrayLike<number | null>, x: number): number | null {
  let nearest: number | null = null;
  for (let at = 0; at < xs.length; at += 1) {
    if (nearest === null || Math.abs((xs[at] ?? 0) - x) < Math.abs((xs[nearest] ?? 0) - x)) nearest = at;
  }
  return nearest;
}

/** `undefined` for a key that moves nothing. */
function movedCursor(key: string, at: number | null, count: number): number | null | undefined {
  const last = count - 1;
  switch (key) {
    case 'ArrowLeft':
      return at === null ? last : Math.max(0, at - 1);
    case 'ArrowRight':
      return at === null ? last : Math.min(last, at + 1);
    case 'PageUp':
      return Math.max(0, (at ?? last) - Math.max(1, Math.round(count / 10)));
    case 'PageDown':
      return Math.min(last, (at ?? last) + Math.max(1, Math.round(count / 10)));
    case 'Home':
      return 0;
    case 'End':
      return last;
    case 'Escape':
      return null;
    default:
      return undefined;
  }
}

function readoutText(
  row: number,
  series: readonly LineViewSeries[],
  data: LineData,
  xText: (value: number) => string,
  yText: (value: number) => string
): string {
  const parts = series.flatMap(({ name }, at) => {
    const value = data[at + 1]?.[row];
    return value === null || value === undefined || Number.isNaN(value) ? [] : [`${name} ${yText(value)}`];
  });
  return [xText(data[0]?.[row] ?? 0), ...parts].join(' · ');
}
