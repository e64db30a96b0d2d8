/** How far a run is: steps done of all, and the time that is left. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { JSX } from 'react';
import type { Run } from '../events/run.js';
import { countText, secondsText } from '../text/duration.js';
import { progressOf, type StepSummary } from './summary.js';

export interface ProgressLineProps {
  readonly run: Run;
  readonly summary: StepSummary;
  readonly trans: TranslationBundle;
}

export function ProgressLine({ run, summary, trans }: ProgressLineProps): JSX.Element {
  const progress = progressOf(run, summary);
  if (progress === null) {
    return (
      <div className="jp-TPULab-row">
        <span className="jp-TPULab-number">{trans.__('step %1', countText(summary.lastIndex + 1))}</span>
      </div>
    );
  }
  const { done, total } = progress;
  // The agent has seen all steps of the run, the page only those of its window.
  const eta = run.state === 'running' ? (run.pace?.etaSeconds ?? null) : null;
  const remainingMs = eta === null ? progress.remainingMs : eta * 1_000;
  return (
    <div className="jp-TPULabProgress">
      <progress
        className="jp-TPULabProgress-bar"
        max={total}
        value={done}
        aria-label={trans.__('Steps done')}
      />
      <div className="jp-TPULab-row">
        <span className="jp-TPULab-number">
          {trans.__('step %1 of %2', countText(done), countText(total))}
        </span>
        <span className="jp-TPULab-number jp-TPULab-quiet">
          {remainingMs !== null && remainingMs > 0 && done < total
            ? trans.__('%1 left', secondsText(remainingMs))
            : ''}
        </span>
      </div>
    </div>
  );
}
