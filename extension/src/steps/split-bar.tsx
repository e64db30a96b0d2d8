/** The split of the time: one bar of five spans, and a legend with the same in words and figures. */
import type { JSX } from 'react';
import { durationText } from '@tpulab/protocol';
import type { Span } from '../events/step-ring.js';
import { spanMeaning, spanName } from './span-names.js';
import type { StepSummary } from './summary.js';
import { trans } from '../text/trans.js';

interface SplitBarProps {
  readonly summary: StepSummary;
}

/** The device's work first, then its waits. */
const ORDER: readonly Span[] = ['device', 'gap', 'compile', 'input', 'host'];

export function SplitBar({ summary }: SplitBarProps): JSX.Element {
  const spans = [...summary.spans].sort((a, b) => ORDER.indexOf(a.span) - ORDER.indexOf(b.span));
  const label = spans.map(({ span, percent }) => trans.__('%1 %2%', spanName(span), percent)).join(', ');
  return (
    <>
      <div className="jp-TPULabSplit" role="img" aria-label={trans.__('Where the time went: %1', label)}>
        <SplitParts spans={spans} meanMs={summary.meanMs} />
      </div>
      <ul className="jp-TPULabLegend" aria-label={trans.__('Mean of the last %1 steps', summary.count)}>
        {spans
          .filter(({ percent }) => percent > 0)
          .map(({ span, meanMs, percent }) => (
            <li
              key={span}
              className="jp-TPULabLegend-item"
              title={trans.__('%1: %2 per step', spanMeaning(span), durationText(meanMs))}
            >
              <span className={`jp-TPULabLegend-key jp-mod-${span}`} aria-hidden="true" />
              <span className="jp-TPULabLegend-name">{spanName(span)}</span>{' '}
              <strong className="jp-TPULab-number">{percent}%</strong>
            </li>
          ))}
      </ul>
    </>
  );
}

export function SplitParts({ spans, meanMs: whole }: Pick<StepSummary, 'spans' | 'meanMs'>): JSX.Element {
  const parts = spans.map(({ span, meanMs }) => {
    const width = `${whole > 0 ? (meanMs / whole) * 100 : 0}%`;
    return <span key={span} className={`jp-TPULabSplit-part jp-mod-${span}`} style={{ width }} />;
  });
  return <>{parts}</>;
}
