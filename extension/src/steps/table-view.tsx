/** The newest steps as a table: the chart's twin for keyboard and screen reader, and for exact figures. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { type JSX, useState } from 'react';
import type { Run } from '../events/run-history.js';
import { SPANS } from '../events/step-ring.js';
import { countText, threeFigures } from '../text/duration.js';
import { spanName } from './span-names.js';

/** More rows than this are no longer read. */
export const ROWS = 12;

export interface TableViewProps {
  readonly run: Run;
  readonly trans: TranslationBundle;
}

export function TableView({ run, trans }: TableViewProps): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <div className="jp-TPULabTable">
      <button type="button" className="jp-TPULab-link" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? trans.__('Hide the table') : trans.__('Show as a table')}
      </button>
      {open ? <Rows run={run} trans={trans} /> : null}
    </div>
  );
}

function Rows({ run: { steps }, trans }: TableViewProps): JSX.Element {
  const count = Math.min(ROWS, steps.length);
  const positions = Array.from({ length: count }, (_, at) => steps.length - 1 - at);
  return (
    <div
      className="jp-TPULabTable-scroll"
      tabIndex={0}
      role="region"
      aria-label={trans.__('Table of the newest steps')}
    >
      <table>
        <caption>{trans.__('The newest steps, in ms')}</caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('step')}</th>
            <th scope="col">{trans.__('total')}</th>
            {SPANS.map(span => (
              <th scope="col" key={span}>
                {spanName(span, trans)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {positions.map(position => (
            <tr key={steps.index(position)}>
              <th scope="row">{countText(steps.index(position))}</th>
              <td>{threeFigures(steps.wallMs(position))}</td>
              {SPANS.map((span, at) => (
                <td key={span}>{threeFigures(steps.spanMs(position, at))}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
