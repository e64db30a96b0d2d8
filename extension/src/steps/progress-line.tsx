/** How far a run is: steps done of all, the time that is left, and where checkpoints are. */
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
    const steps = summary.lastIndex + 1;
    return (
      <div className="jp-TPULabProgress jp-TPULab-row">
        <span>
          <strong className="jp-TPULabProgress-done">{countText(steps)}</strong>{' '}
          {trans._n('step', 'steps', steps)}
        </span>
      </div>
    );
  }
  const { done, total } = progress;
  const checkpoints = run.bands.filter(({ kind, failed }) => kind === 'checkpoint' && !failed);
  return (
    <div className="jp-TPULabProgress">
      <div className="jp-TPULab-row">
        <span>
          <strong className="jp-TPULabProgress-done">{countText(done)}</strong>{' '}
          {trans.__('of %1 steps', countText(total))}
        </span>
        <span>{leftText(run, progress, trans)}</span>
      </div>
      <div className="jp-TPULabProgress-track">
        <progress
          className="jp-TPULabProgress-bar"
          max={total}
          value={done}
          aria-label={trans.__('Steps done')}
        />
        {checkpoints.map(({ step, startTime }) => (
          <span
            key={startTime}
            className="jp-TPULabProgress-mark"
            title={trans.__('checkpoint at step %1', countText(step))}
            style={{ insetInlineStart: `${Math.min(100, (step / total) * 100)}%` }}
          />
        ))}
      </div>
    </div>
  );
}

function leftText(
  run: Run,
  { done, total, remainingMs }: NonNullable<ReturnType<typeof progressOf>>,
  trans: TranslationBundle
): string {
  if (run.state === 'failed' || run.state === 'interrupted') {
    return trans.__('ended at step %1', countText(done));
  }
  if (run.control?.state === 'paused') {
    return trans.__('held between steps');
  }
  // The agent has seen all steps of the run, the page only those of its window.
  const eta = run.state === 'running' ? (run.pace?.etaSeconds ?? null) : null;
  const leftMs = eta === null ? remainingMs : eta * 1_000;
  if (leftMs === null || leftMs <= 0 || done >= total) {
    return '';
  }
  return trans.__(
    '%1 left',
    leftMs < 90_000 ? secondsText(leftMs) : secondsText(Math.round(leftMs / 60_000) * 60_000)
  );
}
