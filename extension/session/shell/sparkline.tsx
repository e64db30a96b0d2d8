/** The shape of a metric, without axes: its figure stands beside it. */
import type { JSX } from 'react';
import type { MetricSeries } from '../../src/events/metric-series.js';

const WIDTH = 108;
const HEIGHT = 24;

export function Sparkline({ series }: { readonly series: MetricSeries }): JSX.Element | null {
  const values = valuesOf(series);
  if (values.length < 2) {
    return null;
  }
  const low = Math.min(...values);
  const high = Math.max(...values);
  const points = values
    .map((value, at) => {
      const x = (at / (values.length - 1)) * WIDTH;
      const y = high > low ? HEIGHT - 2 - ((value - low) / (high - low)) * (HEIGHT - 4) : HEIGHT / 2;
      return `${x.toFixed(1)},${y.toFixed(1)}`;
    })
    .join(' ');
  return (
    <svg
      className="tpl-Sparkline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
      aria-hidden="true"
    >
      <polyline points={points} />
    </svg>
  );
}

/** At most one for each pixel. */
function valuesOf(series: MetricSeries): number[] {
  const { length } = series;
  const count = Math.min(length, WIDTH);
  return Array.from(
    { length: count },
    (_, at) => series.values[Math.floor((at * (length - 1)) / Math.max(1, count - 1))] ?? Number.NaN
  ).filter(Number.isFinite);
}
