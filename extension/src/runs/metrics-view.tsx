/** A chart for each metric of a run, with other runs beside it when they are compared. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { type JSX, useState } from 'react';
import { LineView } from '../ui/charts/line-view.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { countText } from '../text/duration.js';
import { metricText } from '../text/value.js';
import { metricColumns, type MetricSource } from './metric-data.js';

export interface MetricsViewProps {
  /** The run that is looked at first, then those it is compared with. */
  readonly sources: readonly MetricSource[];
  readonly names: readonly string[];
  /** Grows when a point was added. */
  readonly version: number | string;
  readonly loop: DrawLoop;
  readonly trans: TranslationBundle;
}

/** More are there when asked for: each chart costs drawing. */
const CHARTS_SHOWN = 4;

/** Told apart by colour and by dash. */
const LINES = [
  { colour: '--jp-brand-color1' },
  { colour: '--jp-tpulab-input', dash: [6, 3] },
  { colour: '--jp-tpulab-compile', dash: [2, 2] },
  { colour: '--jp-tpulab-device', dash: [8, 3, 2, 3] },
  { colour: '--jp-ui-font-color2', dash: [4, 4] }
] as const;

export function MetricsView({ sources, names, version, loop, trans }: MetricsViewProps): JSX.Element | null {
  const [all, setAll] = useState(false);
  const [logarithmic, setLogarithmic] = useState(false);
  if (names.length === 0) {
    return null;
  }
  const shown = all ? names : names.slice(0, CHARTS_SHOWN);
  const hidden = names.length - shown.length;
  return (
    <div className="jp-TPULabMetrics">
      {shown.map(name => {
        const data = metricColumns(sources, name);
        const own = sources[0]?.series(name);
        const last =
          own?.last ?? (own && own.values.length > 0 ? own.values[own.values.length - 1] : undefined);
        const since = own?.nonFiniteSince ?? null;
        return (
          <LineView
            key={name}
            title={name}
            meta={
              last === undefined
                ? ''
                : since === null
                  ? metricText(last)
                  : trans.__('%1 since step %2', metricText(last), countText(since))
            }
            failsFrom={since}
            series={sources.map(({ label }, at) => ({
              name: label,
              ...(LINES[at % LINES.length] ?? LINES[0]),
              joinsGaps: sources.length > 1
            }))}
            data={data}
            version={`${version} ${sources.length}`}
            loop={loop}
            xText={countText}
            yText={metricText}
            logarithmic={logarithmic}
          />
        );
      })}
      <div className="jp-TPULab-row">
        <button
          type="button"
          className="jp-TPULab-option"
          aria-pressed={logarithmic}
          onClick={() => setLogarithmic(!logarithmic)}
        >
          {trans.__('log scale')}
        </button>
        {hidden > 0 || all ? (
          <button type="button" className="jp-TPULab-link" aria-expanded={all} onClick={() => setAll(!all)}>
            {all ? trans.__('Show fewer metrics') : trans._n('%1 more metric', '%1 more metrics', hidden)}
          </button>
        ) : null}
      </div>
    </div>
  );
}
