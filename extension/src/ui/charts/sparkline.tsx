/** A curve without axes: its shape beside a figure. A chart with axes is one click away. */
import { type JSX, memo } from 'react';
import { sparkPath } from './spark-path.js';

interface SparklineProps {
  readonly values: ArrayLike<number>;
  /** Changes when `values` has changed, which may be the same object. */
  readonly version: number | string;
}

const WIDTH = 200;
const HEIGHT = 36;

/** The figure beside it shows the newest value, so it is hidden from screen readers. */
export const Sparkline = memo(
  function Sparkline({ values }: SparklineProps): JSX.Element {
    const { line, area } = sparkPath(values, WIDTH, HEIGHT);
    return (
      <svg
        className="jp-TPULabSpark"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        <path className="jp-TPULabSpark-area" d={area} />
        <path className="jp-TPULabSpark-line" d={line} />
      </svg>
    );
  },
  (a, b) => a.version === b.version
);
