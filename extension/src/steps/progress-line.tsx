/** The progress of a run: completed steps of all, the remaining time, and the checkpoints. */
import type { JSX } from 'react';
import { countText, secondsText } from '@tpulab/protocol';
import type { Run } from '../events/run.js';
import { useSeconds } from '../ui/use-changes.js';
import { progressOf, type StepSummary } from './summary.js';
import { trans } from '../text/trans.js';

interface ProgressLineProps {
  readonly run: Run;
  readonly summary: StepSummary;
}

export function ProgressLine({ run, summary }: ProgressLineProps): JSX.Element {
  useSeconds(run.state === 'running');
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
        <span>{leftText(run, summary.typicalMs, progress)}</span>
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

/** From this multiple of its usual step a loop counts as hanging, but not before some seconds. */
const HANG_FACTOR = 10;
const HANG_MS = 5_000;

/** Why a live run has no step for far more than its usual time; null: the silence is normal. */
export function silenceText(run: Run, typicalMs: number): string | null {
  if (run.isInBand && run.state === 'running') {
    return trans.__('evaluating or saving');
  }
  const silentMs = Date.now() - run.receivedAt;
  const isLong = run.receivedAt > 0 && silentMs > Math.max(HANG_MS, HANG_FACTOR * typicalMs);
  return isLong && run.state === 'running' && run.control?.state !== 'paused'
    ? trans.__('no step for %1', secondsText(silentMs))
    : null;
}

function leftText(
  run: Run,
  typicalMs: number,
  { done, total, remainingMs }: NonNullable<ReturnType<typeof progressOf>>
): string {
  if (run.state === 'failed' || run.state === 'interrupted') {
    return trans.__('ended at step %1', countText(done));
  }
  if (run.control?.state === 'paused') {
    return trans.__('held between steps');
  }
  const silence = silenceText(run, typicalMs);
  if (silence !== null) {
    return silence;
  }
  return remainingMs === null || remainingMs <= 0 || done >= total ? '' : remainingText(run, remainingMs);
}

/** An estimated time: in whole minutes from 90 s on. */
export function remainingText({ isOpenEnded }: Run, ms: number): string {
  const text = secondsText(ms < 90_000 ? ms : Math.round(ms / 60_000) * 60_000);
  return isOpenEnded ? trans.__('%1 left in this loop', text) : trans.__('%1 left', text);
}
