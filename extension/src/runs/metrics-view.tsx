/** The metrics of a run: each with its shape, and on demand its chart, with other runs when they are compared. */
import { type JSX, type KeyboardEvent, useState } from 'react';
import { countText, secondsText } from '@tpulab/protocol';
import { LineView } from '../ui/charts/line-view.js';
import { Sparkline } from '../ui/charts/sparkline.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { metricText } from '../text/value.js';
import {
  hasAxis,
  type MetricAxis,
  metricColumns,
  type MetricPoints,
  type MetricSource
} from './metric-data.js';
import { trans } from '../text/trans.js';

interface MetricsViewProps {
  /** The shown run first, then the runs it is compared with. */
  readonly sources: readonly MetricSource[];
  readonly names: readonly string[];
  /** Increases when a point was added. */
  readonly version: number | string;
  /** Names of the metrics whose charts are open. */
  readonly opened: readonly string[];
  readonly onToggle: (name: string) => void;
  /** It is shown elsewhere, and opened from there. */
  readonly main?: string | undefined;
  /** Charts alone, where a table has the figures. */
  readonly hasTiles?: boolean;
  readonly loop: DrawLoop;
}

/** Further ones are shown on demand. */
const TILES_SHOWN = 6;
const SMOOTHINGS = [0, 0.6, 0.9, 0.99] as const;

/** Distinguished by colour and by dash. */
const LINES = [
  { colour: '--jp-tpulab-run-a' },
  { colour: '--jp-tpulab-run-b', dash: [6, 3] },
  { colour: '--jp-tpulab-run-c', dash: [2, 2] },
  { colour: '--jp-tpulab-input', dash: [8, 3, 2, 3] },
  { colour: '--jp-ui-font-color2', dash: [4, 4] }
] as const;

interface ChartOptions {
  readonly axis: MetricAxis;
  readonly smoothing: number;
  readonly logarithmic: boolean;
  /** The zoomed range, in all charts. */
  readonly range: readonly [number, number] | null;
}

export function MetricsView(props: MetricsViewProps): JSX.Element | null {
  const { sources, names, version, main, onToggle } = props;
  const [all, setAll] = useState(false);
  const [options, setOptions] = useState<ChartOptions>({
    ...{ axis: 'step', smoothing: 0, logarithmic: false },
    range: null
  });
  const [cursor, setCursor] = useState<number | null>(null);
  if (names.length === 0) {
    return null;
  }
  // Compared runs are always shown in a chart.
  const opened = props.opened.length === 0 && sources.length > 1 ? names.slice(0, 1) : props.opened;
  const others = names.filter(name => name !== main);
  const shown = all ? others : others.slice(0, TILES_SHOWN);
  const hidden = others.length - shown.length;
  const onKey = ({ key }: KeyboardEvent): void => {
    const [first] = opened;
    if ((key === '+' || key === '-') && first !== undefined) {
      setOptions({ ...options, range: zoomed(sources, first, options, cursor, key === '+' ? 0.5 : 2) });
    }
  };
  const hasTiles = props.hasTiles ?? true;
  return (
    <div className="jp-TPULabMetrics" onKeyDown={onKey}>
      <ul hidden={!hasTiles} className="jp-TPULabMetrics-tiles" aria-label={trans.__('Metrics')}>
        {(hasTiles ? shown : []).map(name => {
          const own = sources[0]?.series(name) ?? null;
          return (
            <li key={name}>
              <button
                type="button"
                className="jp-TPULabMetrics-tile"
                aria-expanded={opened.includes(name)}
                title={trans.__('Show the chart of %1', name)}
                onClick={() => onToggle(name)}
              >
                <span className="jp-TPULabMetrics-name">{name}</span>{' '}
                <strong
                  className={`jp-TPULab-number${(own?.nonFiniteSince ?? null) === null ? '' : ' jp-TPULab-failure'}`}
                >
                  {lastText(own)}
                </strong>
                <Sparkline values={own?.values ?? []} version={`${version} ${own?.steps.length ?? 0}`} />
              </button>
            </li>
          );
        })}
      </ul>
      {hasTiles && (hidden > 0 || all) ? (
        <button type="button" className="jp-TPULab-link" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? trans.__('Show fewer metrics') : trans._n('%1 more metric', '%1 more metrics', hidden)}
        </button>
      ) : null}
      {opened
        .filter(name => names.includes(name))
        .map(name => (
          <MetricChart
            key={name}
            {...props}
            name={name}
            options={options}
            cursor={opened.length > 1 ? cursor : undefined}
            onCursor={setCursor}
            onRange={range => setOptions({ ...options, range })}
          />
        ))}
      {opened.length > 0 ? (
        <Options
          options={options}
          has={axis => opened.every(name => hasAxis(sources, name, axis))}
          onChange={setOptions}
        />
      ) : null}
    </div>
  );
}

function lastText(points: MetricPoints | null): string {
  const last = points?.last ?? points?.values[points.values.length - 1];
  return last === undefined ? '–' : metricText(last);
}

/** The visible part of the axis after zooming in or out; null: all of it. */
function zoomed(
  sources: readonly MetricSource[],
  name: string,
  { axis, range }: ChartOptions,
  cursor: number | null,
  factor: number
): readonly [number, number] | null {
  const [whole = []] = metricColumns(sources, name, { axis });
  const [first, last] = [whole[0] ?? 0, whole.at(-1) ?? 0];
  const [from, to] = range ?? [first, last];
  const middle = cursor ?? (from + to) / 2;
  const [low, high] = [middle - (middle - from) * factor, middle + (to - middle) * factor];
  return low <= first && high >= last ? null : [Math.max(first, low), Math.min(last, high)];
}

interface MetricChartProps extends MetricsViewProps {
  readonly name: string;
  readonly options: ChartOptions;
  readonly cursor: number | null | undefined;
  readonly onCursor: (x: number | null) => void;
  readonly onRange: (range: readonly [number, number] | null) => void;
}

function MetricChart(props: MetricChartProps): JSX.Element {
  const { sources, name, version, loop, options, cursor, onCursor, onRange } = props;
  const axis = hasAxis(sources, name, options.axis) ? options.axis : 'step';
  const { smoothing, logarithmic, range } = options;
  const own = sources[0]?.series(name) ?? null;
  const since = own?.nonFiniteSince ?? null;
  const columns = metricColumns(sources, name, { axis, smoothing, range });
  const lines = sources.map(({ label }, at) => ({
    name: label,
    ...(LINES[at % LINES.length] ?? LINES[0]),
    joinsGaps: sources.length > 1
  }));
  // The mean of one run is drawn over its values.
  const [x = [], ...means] = columns;
  const raw =
    smoothing > 0 && sources.length === 1 ? metricColumns(sources, name, { axis, range }).slice(1) : [];
  return (
    <LineView
      title={name}
      meta={since === null ? lastText(own) : trans.__('%1 since step %2', lastText(own), countText(since))}
      failedFrom={axis === 'step' ? since : null}
      series={[
        ...raw.map(() => ({ name: trans.__('each step'), colour: '--jp-border-color1', joinsGaps: false })),
        ...lines
      ]}
      data={[x, ...raw, ...means] as typeof columns}
      version={`${version} ${sources.length} ${axis} ${smoothing} ${String(range)}`}
      loop={loop}
      xText={axis === 'time' ? seconds => secondsText(seconds * 1_000) : countText}
      yText={metricText}
      logarithmic={logarithmic}
      onRange={onRange}
      onCursorX={onCursor}
      {...(cursor === undefined ? {} : { cursorX: cursor })}
    />
  );
}

interface OptionsProps {
  readonly options: ChartOptions;
  readonly has: (axis: MetricAxis) => boolean;
  readonly onChange: (options: ChartOptions) => void;
}

function Options({ options, has, onChange }: OptionsProps): JSX.Element {
  const axes: readonly (readonly [MetricAxis, string])[] = [
    ['step', trans.__('steps')],
    ['time', trans.__('wall time')],
    ['tokens', trans.__('tokens')]
  ];
  return (
    <div className="jp-TPULab-row jp-TPULabMetrics-options" role="group" aria-label={trans.__('Charts')}>
      <label>
        {trans.__('Smoothing')}{' '}
        <select
          value={options.smoothing}
          onChange={event => onChange({ ...options, smoothing: Number(event.currentTarget.value) })}
        >
          {SMOOTHINGS.map(weight => (
            <option key={weight} value={weight}>
              {weight === 0 ? trans.__('none') : String(weight)}
            </option>
          ))}
        </select>
      </label>
      <span className="jp-TPULab-choice">
        {axes
          .filter(([axis]) => axis !== 'tokens' || has(axis))
          .map(([axis, text]) => (
            <button
              key={axis}
              type="button"
              className="jp-TPULab-option"
              aria-pressed={options.axis === axis && has(axis)}
              disabled={!has(axis)}
              title={has(axis) ? undefined : trans.__('Compared runs have no step times.')}
              onClick={() => onChange({ ...options, axis, range: null })}
            >
              {text}
            </button>
          ))}
      </span>
      <button
        type="button"
        className="jp-TPULab-option"
        aria-pressed={options.logarithmic}
        onClick={() => onChange({ ...options, logarithmic: !options.logarithmic })}
      >
        {trans.__('log scale')}
      </button>
      {options.range ? (
        <button
          type="button"
          className="jp-TPULab-option"
          onClick={() => onChange({ ...options, range: null })}
        >
          {trans.__('Show everything')}
        </button>
      ) : null}
    </div>
  );
}
