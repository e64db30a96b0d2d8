/** Where the time went: one bar of five spans, and a legend that says the same in words and figures. */
import type { JSX } from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import { durationText } from '../text/duration.js';
import { spanMeaning, spanName } from './span-names.js';
import type { StepSummary } from './summary.js';

export interface SplitBarProps {
  readonly summary: StepSummary;
  readonly trans: TranslationBundle;
}

export function SplitBar({ summary, trans }: SplitBarProps): JSX.Element {
  const label = summary.spans
    .map(({ span, percent }) => trans.__('%1 %2 %', spanName(span, trans), percent))
    .join(', ');
  return (
    <>
      <div className="jp-TPULabSplit" role="img" aria-label={trans.__('Where the time went: %1', label)}>
        {summary.spans.map(({ span, meanMs }) => (
          <span
            key={span}
            className={`jp-TPULabSplit-part jp-mod-${span}`}
            style={{ width: `${summary.meanMs > 0 ? (meanMs / summary.meanMs) * 100 : 0}%` }}
          />
        ))}
      </div>
      <ul className="jp-TPULabLegend" aria-label={trans.__('Mean of the last %1 steps', summary.count)}>
        {summary.spans.map(({ span, meanMs, percent }) => (
          <li key={span} className="jp-TPULabLegend-item" title={spanMeaning(span, trans)}>
            <span className={`jp-TPULabLegend-key jp-mod-${span}`} aria-hidden="true" />
            <span className="jp-TPULabLegend-name">{spanName(span, trans)}</span>
            <span className="jp-TPULab-number jp-TPULabLegend-percent">{percent} %</span>
            <span className="jp-TPULab-number jp-TPULab-quiet">{durationText(meanMs)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
