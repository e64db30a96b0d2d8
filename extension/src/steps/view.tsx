/** The steps of the current run: their time, its split, and advice. */
import { type JSX, useState } from 'react';
import {
  type AdviceMessage,
  type CodeLocation,
  durationText,
  secondsText,
  threeFigures
} from '@tpulab/protocol';
import { locationText } from '../compilations/reason.js';
import { unavailableReason } from '../events/capabilities.js';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run.js';
import { fromBackticks } from '../text/marked.js';
import { Marked } from '../ui/marked-view.js';
import { type Advice, adviceFor } from './advice.js';
import { ChartView } from './chart-view.js';
import { FiguresView } from './figures-view.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { Glyph } from '../ui/glyph.js';
import { Menu } from '../ui/menu.js';
import { HostsView } from './hosts-view.js';
import { NotesView } from './notes-view.js';
import { ProgressLine } from './progress-line.js';
import { SplitBar } from './split-bar.js';
import { type StepSummary, summarize } from './summary.js';
import { TableView } from './table-view.js';
import { TraceView } from './trace-view.js';
import { trans } from '../text/trans.js';

const STEPS_EXAMPLE = 'import tpulab\nfor x in tpulab.steps(data):\n    …';

interface StepsViewProps {
  readonly kernel: KernelTelemetry;
  /** The shown run; null when there is none. */
  readonly run: Run | null;
  /** Number of newest steps in the summary. */
  readonly window: number;
  readonly loop: DrawLoop;
  readonly paused: boolean;
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
  /** Releases memory held by the last traceback and outputs; null where no request can be sent to the kernel. */
  readonly onFree: (() => void) | null;
  /** Traces the devices for this many seconds; null where no request can be sent to the kernel. */
  readonly onTrace: ((seconds: number) => void) | null;
  readonly isTracing: boolean;
  /** Why the last trace failed. */
  readonly traceFailure: string | null;
  /** Null where the page saves no files. */
  readonly onExport: ((run: Run) => void) | null;
  /** The run section shows the progress of the run: here it would be of another moment, as that section is drawn less often. */
  readonly hidesProgress: boolean;
}

export function StepsView(props: StepsViewProps): JSX.Element {
  const { kernel, run, window, loop, paused, onExport } = props;
  const [hasTable, setTable] = useState(false);
  const summary = run ? summarize(run.steps, window) : null;
  if (!run || !summary) {
    return (
      <>
        <Compiling kernel={kernel} />
        <NoSteps run={run} />
        <Notes {...props} run={null} cause={null} />
      </>
    );
  }
  const found = adviceFor(summary, recompileAdvice(kernel, run), run.throughput?.mfu?.value ?? null);
  // Naming an output helps only with the hook that reports the step's programs.
  const hidden = found.limit === 'unwatched' ? unavailableReason(kernel.agent, 'device-time') : null;
  const advice =
    hidden === null
      ? found
      : { ...found, text: trans.__('Device time is unknown. %1 Host and idle time include it.', hidden) };
  const cause = causeOf(kernel, run, advice);
  return (
    <div className="jp-TPULabSteps">
      <Compiling kernel={kernel} />
      <SplitBar summary={summary} />
      <Cause {...props} cause={cause} summary={summary} advice={advice} />
      {run.hosts ? <HostsView hosts={run.hosts} /> : null}
      <ChartView kernel={kernel} run={run} summary={summary} window={window} loop={loop} paused={paused} />
      {props.hidesProgress ? null : <ProgressLine run={run} summary={summary} />}
      {run.throughput ? <FiguresView measured={run.throughput} /> : null}
      <Notes {...props} run={run} cause={cause} />
      <Actions
        {...props}
        hasTable={hasTable}
        onTable={() => setTable(!hasTable)}
        onExport={onExport && (() => onExport(run))}
      />
      {hasTable ? <TableView run={run} window={window} /> : null}
      {props.traceFailure === null ? null : (
        <p className="jp-TPULab-failure" role="alert">
          {props.traceFailure}
        </p>
      )}
      {kernel.profile ? <TraceView profile={kernel.profile} /> : null}
      {run.dropped > 0 ? (
        <p className="jp-TPULab-quiet">
          {trans._n(
            '%1 step is left out: the kernel was too busy.',
            '%1 steps are left out: the kernel was too busy.',
            run.dropped
          )}
        </p>
      ) : null}
    </div>
  );
}

/** A running compilation, which would otherwise look like inactivity. */
function Compiling({ kernel }: { readonly kernel: KernelTelemetry }): JSX.Element | null {
  const [running] = kernel.compilations.running;
  return running ? (
    <p className="jp-TPULabSay jp-mod-compile">
      {trans.__(
        'Compiling %1, %2',
        running.function,
        secondsText(Date.now() + kernel.clockAheadMs - running.startedAt)
      )}
    </p>
  ) : null;
}

/**
 * One sentence about the largest part, and the line that causes it where the agent found it: the loop waits for a value there, or
 * the step has been compiled there again.
 */
function Cause({
  cause,
  summary,
  advice,
  onGoTo
}: StepsViewProps & {
  readonly cause: AdviceMessage | null;
  readonly summary: StepSummary;
  readonly advice: Advice;
}): JSX.Element {
  const goTo = cause?.location ? onGoTo(cause.location) : null;
  const idleMs = summary.spans.find(({ span }) => span === 'gap')?.meanMs ?? 0;
  return (
    <div className={`jp-TPULabSay${advice.act ? ' jp-mod-act' : ' jp-mod-fine'}`}>
      {cause && advice.limit === 'gap' ? (
        <p>
          {trans.__('The device sits idle for %1 of every step.', durationText(idleMs))} {cause.message}
        </p>
      ) : (
        <p>
          <Marked pieces={fromBackticks(advice.text)} />
        </p>
      )}
      {cause ? (
        <div className="jp-TPULabSay-act">
          {goTo ? (
            <button type="button" className="jp-TPULab-button" onClick={goTo}>
              <Glyph name="line" />
              {trans.__('Go to %1', locationText(cause.location))}
            </button>
          ) : null}
          <span className="jp-TPULab-quiet">
            <Marked pieces={fromBackticks(cause.remedy)} />
          </span>
        </div>
      ) : null}
    </div>
  );
}

/** The agent's finding about this run that explains its limit. */
function causeOf(kernel: KernelTelemetry, run: Run, { limit }: Advice): AdviceMessage | null {
  return limit === 'gap' || limit === 'host'
    ? (kernel.advice.findLast(({ kind, run: of }) => kind === 'sync-each-step' && of === run.id) ?? null)
    : null;
}

function Notes({
  kernel,
  run,
  cause,
  onGoTo,
  onFree
}: StepsViewProps & { readonly cause: AdviceMessage | null }): JSX.Element {
  // The head of the run reports a metric that is not finite; other runs are reported with their own steps.
  const advice = kernel.advice.filter(
    one =>
      one !== cause &&
      (run === null || (one.kind !== 'non-finite-metric' && (one.run === null || one.run === run.id)))
  );
  return <NotesView advice={advice} memoryErrors={kernel.memoryErrors} onGoTo={onGoTo} onFree={onFree} />;
}

/** Actions on the steps, behind one button. */
function Actions({
  onTrace,
  isTracing,
  hasTable,
  onTable,
  onExport
}: Pick<StepsViewProps, 'onTrace' | 'isTracing'> & {
  readonly hasTable: boolean;
  readonly onTable: () => void;
  readonly onExport: (() => void) | null;
}): JSX.Element {
  const items = [
    { label: hasTable ? trans.__('Hide the table') : trans.__('Show as a table'), onClick: onTable },
    ...[2, 20].flatMap(seconds => {
      const label = trans.__('Trace %1 s with XProf', seconds);
      return onTrace ? [{ label, disabled: isTracing, onClick: () => onTrace(seconds) }] : [];
    }),
    ...(onExport ? [{ label: trans.__('Export as CSV'), onClick: onExport }] : [])
  ];
  return (
    <div className="jp-TPULab-row jp-TPULabSteps-more">
      <Menu
        label={trans.__('More: table, trace, export')}
        button={isTracing ? trans.__('Tracing…') : trans.__('More')}
        buttonClass="jp-TPULab-button"
        items={items}
      />
    </div>
  );
}

/** For the heading of the section: `48.2 ms/step · 20.7 steps/s`. */
export function stepTexts(run: Run | null, window: number): string[] {
  const summary = run ? summarize(run.steps, window) : null;
  if (!summary) {
    return [];
  }
  const { typicalMs, perSecond, bandsMs, compileMs, meanMs } = summary;
  const beside = bandsMs + (typicalMs === meanMs ? 0 : compileMs);
  return [
    trans.__('%1/step', durationText(typicalMs)),
    ...(beside > 0
      ? [
          beside === bandsMs
            ? trans.__('+ %1 evaluating and saving', durationText(beside))
            : trans.__('+ %1 compiling and evaluating', durationText(beside))
        ]
      : []),
    ...(perSecond === null ? [] : [trans.__('%1 steps/s', threeFigures(perSecond))])
  ];
}

/** The agent's advice at the newest recompilation of this run. */
function recompileAdvice(kernel: KernelTelemetry, run: Run): string | null {
  const { entries } = kernel.compilations;
  for (let at = entries.length - 1; at >= 0; at -= 1) {
    const entry = entries[at];
    if (entry && entry.variant > 1 && entry.run === run.id) {
      return entry.reason.advice;
    }
  }
  return null;
}

function NoSteps({ run }: { run: Run | null }): JSX.Element {
  return (
    <div className="jp-TPULabEmpty">
      <p>
        {run?.state === 'running'
          ? trans.__('Running. The next finished step appears here.')
          : trans.__('No steps yet. Wrap the training loop to see where its time goes:')}
      </p>
      {run?.state === 'running' ? null : <pre className="jp-TPULabEmpty-code">{STEPS_EXAMPLE}</pre>}
    </div>
  );
}
