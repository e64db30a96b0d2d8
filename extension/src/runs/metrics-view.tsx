/** The metrics of a run: each with its shape, and on demand its chart, with other runs beside it when they are compared. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { type JSX, useState } from 'react';
import { LineView } from '../ui/charts/line-view.js';
import { Sparkline } from '../ui/charts/sparkline.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { countText, secondsText } from '../text/duration.js';
import { metricText } from '../text/value.js';
import {
  hasTimes,
  type MetricAxis,
  metricColumns,
  type MetricPoints,
  type MetricSource
} from './metric-data.js';

export interface MetricsViewProps {
  /** The run that is looked at first, then those it is compared with. */
  readonly sources: readonly MetricSource[];
  readonly names: readonly string[];
  /** Grows when a point was added. */
  readonly version: number | string;
  /** Names of the metrics whose charts are open. */
  readonly opened: readonly string[];
  readonly onToggle: (name: string) => void;
  /** It is shown elsewhere, and opened from there. */
  readonly main?: string | undefined;
  readonly loop: DrawLoop;
  readonly trans: TranslationBundle;
}

/** More are there when asked for. */
const TILES_SHOWN = 6;
const SMOOTHINGS = [0, 0.6, 0.9, 0.99] as const;

/** Told apart by colour and by dash. */
const LINES = [
  { colour: '--jp-brand-color1' },
  { colour: '--jp-tpulab-input', dash: [6, 3] },
  { colour: '--jp-tpulab-compile', dash: [2, 2] },
  { colour: '--jp-tpulab-device', dash: [8, 3, 2, 3] },
  { colour: '--jp-ui-font-color2', dash: [4, 4] }
] as const;

interface ChartOptions {
  readonly axis: MetricAxis;
  readonly smoothing: number;
  readonly logarithmic: boolean;
}

export function MetricsView(props: MetricsViewProps): JSX.Element | null {
  const { sources, names, version, main, onToggle, trans } = props;
  const [all, setAll] = useState(false);
  const [options, setOptions] = useState<ChartOptions>({ axis: 'step', smoothing: 0, logarithmic: false });
  if (names.length === 0) {
    return null;
  }
  // Runs that are compared are compared in a chart.
  const opened = props.opened.length === 0 && sources.length > 1 ? names.slice(0, 1) : props.opened;
  const others = names.filter(name => name !== main);
  const shown = all ? others : others.slice(0, TILES_SHOWN);
  const hidden = others.length - shown.length;
  return (
    <div className="jp-TPULabMetrics">
      <ul className="jp-TPULabMetrics-tiles" aria-label={trans.__('Metrics')}>
        {shown.map(name => {
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
      {hidden > 0 || all ? (
        <button type="button" className="jp-TPULab-link" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? trans.__('Show fewer metrics') : trans._n('%1 more metric', '%1 more metrics', hidden)}
        </button>
      ) : null}
      {opened
        .filter(name => names.includes(name))
        .map(name => (
          <MetricChart key={name} {...props} name={name} options={options} />
        ))}
      {opened.length > 0 ? (
        <Options
          options={options}
          hasTimes={opened.every(name => hasTimes(sources, name))}
          onChange={setOptions}
          trans={trans}
        />
      ) : null}
    </div>
  );
}

function lastText(points: MetricPoints | null): string {
  const last = points?.last ?? points?.values[points.values.length - 1];
  return last === undefined ? '–' : metricText(last);
}

function MetricChart({
  sources,
  name,
  version,
  loop,
  options,
  trans
}: MetricsViewProps & { readonly name: string; readonly options: ChartOptions }): JSX.Element {
  const axis = options.axis === 'time' && hasTimes(sources, name) ? 'time' : 'step';
  const { smoothing, logarithmic } = options;
  const own = sources[0]?.series(name) ?? null;
  const since = own?.nonFiniteSince ?? null;
  const columns = metricColumns(sources, name, { axis, smoothing });
  const lines = sources.map(({ label }, at) => ({
    name: label,
    ...(LINES[at % LINES.length] ?? LINES[0]),
    joinsGaps: sources.length > 1
  }));
  // The mean of one run is drawn over what it is the mean of.
  const [x = [], ...means] = columns;
  const raw = smoothing > 0 && sources.length === 1 ? metricColumns(sources, name, { axis }).slice(1) : [];
  return (
    <LineView
      title={name}
      meta={since === null ? lastText(own) : trans.__('%1 since step %2', lastText(own), countText(since))}
      failsFrom={axis === 'step' ? since : null}
      series={[
        ...raw.map(() => ({ name: trans.__('each step'), colour: '--jp-border-color1', joinsGaps: false })),
        ...lines
      ]}
      data={[x, ...raw, ...means] as typeof columns}
      version={`${version} ${sources.length} ${axis} ${smoothing}`}
      loop={loop}
      xText={axis === 'time' ? seconds => secondsText(seconds * 1_000) : countText}
      yText={metricText}
      logarithmic={logarithmic}
    />
  );
}

interface OptionsProps {
  readonly options: ChartOptions;
  readonly hasTimes: boolean;
  readonly onChange: (options: ChartOptions) => void;
  readonly trans: TranslationBundle;
}

function Options({ options, hasTimes: timed, onChange, trans }: OptionsProps): JSX.Element {
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
      <button
        type="button"
        className="jp-TPULab-option"
        aria-pressed={options.axis === 'time' && timed}
        disabled={!timed}
        title={timed ? undefined : trans.__('Compared runs have no step times.')}
        onClick={() => onChange({ ...options, axis: options.axis === 'time' ? 'step' : 'time' })}
      >
        {trans.__('wall time')}
      </button>
      <button
        type="button"
        className="jp-TPULab-option"
        aria-pressed={options.logarithmic}
        onClick={() => onChange({ ...options, logarithmic: !options.logarithmic })}
      >
        {trans.__('log scale')}
      </button>
    </div>
  );
}
