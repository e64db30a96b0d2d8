/** The newest steps as a table: the chart's twin for keyboard and screen reader, and for exact figures. */
import type { JSX } from 'react';
import { countText, threeFigures } from '@tpulab/protocol';
import type { Run } from '../events/run.js';
import { SPANS, type StepRing } from '../events/step-ring.js';
import { isEstimated, shownSpanMs, type WatchedShares, watchedShares } from './shown-split.js';
import { spanName } from './span-names.js';
import { trans } from '../text/trans.js';

/** More rows than this are not readable. */
export const ROWS = 12;

interface TableViewProps {
  readonly run: Run;
  /** Number of newest steps in the chart and the summary; the watched ones among them give the split of the others. */
  readonly window: number;
}

export function TableView({ run: { steps }, window }: TableViewProps): JSX.Element {
  const count = Math.min(ROWS, steps.length);
  const positions = Array.from({ length: count }, (_, at) => steps.length - 1 - at);
  const shares = watchedShares(steps, window);
  const someUnwatched = positions.some(position => !steps.deviceKnown(position));
  const someEstimated = positions.some(position => isEstimated(steps, position, shares));
  return (
    <div
      className="jp-TPULabTable jp-TPULabTable-scroll"
      tabIndex={0}
      role="region"
      aria-label={trans.__('Table of the newest steps')}
    >
      <table>
        <caption>
          {someEstimated
            ? trans.__('The newest steps, in ms; ≈ is estimated from the watched steps')
            : trans.__('The newest steps, in ms')}
        </caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('step')}</th>
            {someUnwatched ? <th scope="col">{trans.__('watched')}</th> : null}
            <th scope="col">{trans.__('total')}</th>
            {SPANS.map(span => (
              <th scope="col" key={span}>
                {spanName(span)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {positions.map(position => (
            <tr key={steps.index(position)}>
              <th scope="row">{countText(steps.index(position))}</th>
              {someUnwatched ? (
                <td>{steps.deviceKnown(position) ? trans.__('yes') : trans.__('no')}</td>
              ) : null}
              <td>{threeFigures(steps.wallMs(position))}</td>
              {SPANS.map((span, at) => (
                <td key={span}>{spanText(steps, position, at, shares)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A dash for device time that is unknown and cannot be estimated: it is within host. */
function spanText(steps: StepRing, position: number, span: number, shares: WatchedShares | null): string {
  const text = threeFigures(shownSpanMs(steps, position, span, shares));
  if (isEstimated(steps, position, shares)) {
    return `≈${text}`;
  }
  return SPANS[span] === 'device' && !steps.deviceKnown(position) ? '–' : text;
}
