/** How a run goes on: MFU and rates in a line, and what the whole run made of its time. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { PaceMessage } from '@tpulab/protocol';
import type { JSX } from 'react';
import { durationText, threeFigures } from '../text/duration.js';
import { badputName, paceFigures } from './pace.js';

export interface PaceViewProps {
  readonly pace: PaceMessage;
  readonly trans: TranslationBundle;
}

export function PaceView({ pace, trans }: PaceViewProps): JSX.Element {
  const { goodput } = pace;
  const causes = Object.entries(goodput.badputMs)
    .filter(([, ms]) => ms > 0)
    .sort(([, a], [, b]) => b - a);
  const share = (ms: number): number => (goodput.totalMs > 0 ? (ms / goodput.totalMs) * 100 : 0);
  const percent = Math.round(share(goodput.productiveMs));
  return (
    <div className="jp-TPULabPace">
      <p className="jp-TPULab-number jp-TPULabPace-figures">
        {paceFigures(pace, trans).map(({ text, title }) => (
          <span key={text} title={title}>
            {text}
          </span>
        ))}
      </p>
      {goodput.totalMs > 0 ? (
        <details className="jp-TPULabPace-goodput">
          <summary>
            {trans.__('Goodput %1 % of %2', percent, durationText(goodput.totalMs))}
            <span className="jp-TPULabPace-bar" aria-hidden="true">
              <span style={{ width: `${percent}%` }} />
            </span>
          </summary>
          <ul>
            {causes.map(([cause, ms]) => (
              <li key={cause} className="jp-TPULab-row">
                <span>{badputName(cause, trans)}</span>
                <span className="jp-TPULab-number jp-TPULab-quiet">
                  {durationText(ms)} · {threeFigures(share(ms))} %
                </span>
              </li>
            ))}
          </ul>
        </details>
      ) : null}
    </div>
  );
}
