/** The step bar: the progress of the run, the split of its time, advice, and the buttons that steer it. */
import type { JSX } from 'react';
import { type ControlAction, countText, secondsText } from '@tpulab/protocol';
import type { KernelTelemetry } from '../../src/events/kernel-telemetry.js';
import type { Run } from '../../src/events/run.js';
import { useChanges, useSeconds } from '../../src/ui/use-changes.js';
import type { ControlModel } from '../../src/runs/model.js';
import { actionText, buttonsOf, stateText } from '../../src/events/run-state.js';
import { adviceFor } from '../../src/steps/advice.js';
import { spanName } from '../../src/steps/span-names.js';
import { remainingText, silenceText } from '../../src/steps/progress-line.js';
import { SplitParts } from '../../src/steps/split-bar.js';
import { progressOf, type StepSummary, summarize } from '../../src/steps/summary.js';
import { metricText } from '../../src/text/value.js';
import { controlOf } from '../runtime/control.js';
import type { OpenSession } from '../page/open-session.js';
import type { SessionPage } from '../page/session-page.js';
import { Icon, type IconName } from './icons.js';
import { sparkPath } from '../../src/ui/charts/spark-path.js';
import { useSignals } from './use-signal.js';
import { Marked } from '../../src/ui/marked-view.js';
import { fromBackticks } from '../../src/text/marked.js';
import { trans } from '../text.js';
import { Button } from './plain.js';

interface StepBarProps {
  readonly page: SessionPage;
  readonly session: OpenSession;
  readonly isPanelOpen: boolean;
  readonly onPanel: () => void;
}

/** Number of steps in the summary. */
const WINDOW = 48;
const ICONS: Readonly<Partial<Record<ControlAction, IconName>>> = {
  pause: 'pause',
  resume: 'resume',
  stop: 'stop',
  checkpoint: 'flag',
  sample: 'image'
};

export function StepBar({ page, isPanelOpen, onPanel }: StepBarProps): JSX.Element {
  const { panelState, status } = page;
  useSignals(panelState.changed, status.changed);
  const { telemetry, run } = panelState;
  useChanges(telemetry, false);
  const compiling = telemetry?.compilations.running[0];
  useSeconds(compiling !== undefined);
  return (
    <footer className="tpl-StepBar" aria-label={trans.__('Run')} data-tpl-region="steps">
      {telemetry && run ? (
        <RunLine page={page} kernel={telemetry} run={run} />
      ) : telemetry && compiling ? (
        <>
          <span className="tpl-Pill jp-mod-busy">{trans.__('Compiling')}</span>
          <code>{compiling.function}</code>
          <span className="jp-TPULab-quiet">
            {trans.__('%1 so far', secondsText(Date.now() + telemetry.clockAheadMs - compiling.startedAt))}
          </span>
          <span className="tpl-Spacer" />
        </>
      ) : (
        <>
          <span className="tpl-Pill">{trans.__('No run')}</span>
          <span className="tpl-StepBar-hint jp-TPULab-quiet">
            <Marked
              pieces={fromBackticks(
                trans.__(
                  'Training loops appear here automatically. Wrap the loader in `tpulab.steps(…)` to see input waits too.'
                )
              )}
            />
          </span>
          <span className="tpl-Spacer" />
        </>
      )}
      <Button
        aria-label={isPanelOpen ? trans.__('Close panel') : trans.__('Open panel')}
        aria-expanded={isPanelOpen}
        onClick={onPanel}
      >
        <Icon name="panel" />
        <span>{isPanelOpen ? trans.__('Close panel') : trans.__('Open panel')}</span>
      </Button>
    </footer>
  );
}

function RunLine({
  page,
  kernel,
  run
}: {
  readonly page: SessionPage;
  readonly kernel: KernelTelemetry;
  readonly run: Run;
}): JSX.Element {
  const control = controlOf(page, kernel);
  useSignals(control?.changed);
  const summary = summarize(run.steps, WINDOW);
  const isLive = page.status.connection.kind === 'live' || page.status.connection.kind === 'at-risk';
  const series = [...run.series];
  const [lossName, loss] = series.find(([name]) => /loss/i.test(name)) ?? series[0] ?? [];
  return (
    <>
      {summary ? <Progress run={run} summary={summary} /> : null}
      <span className={`tpl-Pill jp-mod-${isLive ? run.state : 'stale'}`}>
        {isLive ? capital(stateText(run)) : trans.__('Was running')}
      </span>
      {summary ? <Counts run={run} summary={summary} isLive={isLive} /> : <strong>{run.name}</strong>}
      {summary ? <Split summary={summary} page={page} mfu={run.throughput?.mfu?.value ?? null} /> : null}
      {loss && lossName !== undefined ? (
        <span className="tpl-StepBar-loss">
          <span>{lossName}</span> <strong className="jp-TPULab-number">{metricText(loss.last)}</strong>
          <svg className="tpl-Sparkline" viewBox="0 0 108 24" width={108} height={24} aria-hidden="true">
            <path d={sparkPath(loss.values, 108, 24).line} />
          </svg>
        </span>
      ) : null}
      <span className="tpl-Spacer" />
      <Commands run={run} control={control} isLive={isLive && !page.access.isReadOnly} page={page} />
    </>
  );
}

function Progress({
  run,
  summary
}: {
  readonly run: Run;
  readonly summary: StepSummary;
}): JSX.Element | null {
  const progress = progressOf(run, summary);
  return progress === null ? null : (
    <progress
      className="tpl-StepBar-progress"
      max={progress.total}
      value={progress.done}
      aria-label={trans.__('Steps done')}
    />
  );
}

function Counts({
  run,
  summary,
  isLive
}: {
  readonly run: Run;
  readonly summary: StepSummary;
  readonly isLive: boolean;
}): JSX.Element {
  const progress = progressOf(run, summary);
  const remainingMs = progress?.remainingMs ?? null;
  const steps = summary.lastIndex + 1;
  const silence = silenceText(run, summary.typicalMs);
  useSeconds(run.state === 'running');
  return (
    <span className="tpl-StepBar-counts">
      <strong className="jp-TPULab-number">{countText(progress?.done ?? steps)}</strong>
      {progress === null ? trans._n(' step', ' steps', steps) : trans.__(' of %1', countText(progress.total))}
      {silence !== null && isLive ? ` · ${silence}` : ''}
      {silence === null && isLive && remainingMs !== null && remainingMs > 0
        ? ` · ${remainingText(run, remainingMs)}`
        : ''}
    </span>
  );
}

function Split({
  summary,
  mfu
}: {
  readonly summary: StepSummary;
  readonly page: SessionPage;
  readonly mfu: number | null;
}): JSX.Element {
  const shown = summary.spans.filter(({ percent }) => percent > 0).sort((a, b) => b.percent - a.percent);
  const advice = adviceFor(summary, null, mfu);
  const label = shown.map(({ span, percent }) => `${spanName(span)} ${percent}%`).join(', ');
  return (
    <>
      <span className="tpl-StepBar-split" role="img" aria-label={trans.__('Where the time went: %1', label)}>
        <SplitParts {...summary} />
      </span>
      <span className="tpl-StepBar-legend" aria-hidden="true">
        {shown.slice(0, 3).map(({ span, percent }) => (
          <span key={span}>
            <i className={`jp-TPULabLegend-key jp-mod-${span}`} /> <strong>{percent}%</strong>{' '}
            {spanName(span).toLowerCase()}
          </span>
        ))}
      </span>
      {advice.act ? (
        <span className="tpl-StepBar-advice" title={advice.text.replaceAll('`', '')}>
          <Icon name="warning" />
          <span>{advice.text.replaceAll('`', '').split('. ')[0]}</span>
        </span>
      ) : null}
    </>
  );
}

function Commands({
  run,
  control,
  isLive
}: {
  readonly run: Run;
  readonly control: ControlModel | null;
  readonly isLive: boolean;
  readonly page: SessionPage;
}): JSX.Element | null {
  const buttons = buttonsOf(run).filter(({ action }) => ICONS[action] !== undefined);
  return buttons.length === 0 ? null : (
    <span className="tpl-ButtonGroup" role="group" aria-label={trans.__('Run controls')}>
      {buttons.map(({ action, enabled }) => {
        const isPending = (control?.pendingOf(action) ?? null) !== null;
        return (
          <button
            key={action}
            type="button"
            aria-label={actionText(action)}
            title={actionText(action)}
            aria-busy={isPending}
            disabled={!enabled || !isLive || control === null || isPending}
            onClick={() => void control?.request({ action, run: run.id })}
          >
            <Icon name={ICONS[action] ?? 'more'} />
          </button>
        );
      })}
    </span>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
