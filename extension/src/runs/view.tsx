/** The run section: which run, how far it is, its metrics, what can be changed in it and what was. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { type JSX, useState } from 'react';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run.js';
import { useChanges } from '../ui/use-changes.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { ProgressLine } from '../steps/progress-line.js';
import { summarize } from '../steps/summary.js';
import { metricText, valueText } from '../text/value.js';
import { type KeptRun, keptSource } from './kept-runs.js';
import { KeptRunsView } from './kept-runs-view.js';
import { HyperView } from './hyper-view.js';
import { type LoggedRun, LogView } from './log-view.js';
import { metricNames, type MetricSource } from './metric-data.js';
import { MetricsView } from './metrics-view.js';
import type { ControlModel } from './model.js';
import { actionText, buttonsOf, stateText } from '../events/run-state.js';

export interface RunViewProps {
  readonly kernel: KernelTelemetry;
  /** The run that is looked at; null when there is none. */
  readonly run: Run | null;
  readonly onSelect: (run: Run) => void;
  readonly control: ControlModel | null;
  /** Runs that the bridge has kept, of this kernel and others; empty where it keeps none. */
  readonly kept: readonly KeptRun[];
  readonly onOpenKept: (run: KeptRun) => void;
  readonly window: number;
  readonly loop: DrawLoop;
  readonly paused: boolean;
  readonly trans: TranslationBundle;
}

const RUN_EXAMPLE =
  'run = tpulab.run("train", hyperparameters={\n    "learning_rate": tpulab.hyper(3e-4, min=1e-6, max=1e-2, scale="log")})\nfor batch in run.steps(data):\n    …';

export function RunView(props: RunViewProps): JSX.Element {
  const { kernel, run, onSelect, control, kept, trans } = props;
  useChanges(control, props.paused, 0);
  const { runs } = kernel.runs;
  const [compared, setCompared] = useState<readonly string[]>([]);
  if (!run) {
    return (
      <>
        <div className="jp-TPULabEmpty">
          <p>{trans.__('No run yet. A run can be watched and steered while its cell is busy:')}</p>
          <pre className="jp-TPULabEmpty-code">{RUN_EXAMPLE}</pre>
        </div>
        <KeptRunsView {...props} compared={compared} onCompare={setCompared} />
      </>
    );
  }
  const others: MetricSource[] = [
    ...runs.filter(other => other !== run && compared.includes(other.key)).map(sourceOf),
    ...kept.flatMap(one => (compared.includes(one.key) ? (keptSource(one) ?? []) : []))
  ];
  const sources = [sourceOf(run), ...others];
  return (
    <div className="jp-TPULabRun">
      {runs.length > 1 ? (
        <label className="jp-TPULabRun-choice">
          <span className="jp-TPULab-unseen">{trans.__('Run')}</span>
          <select
            className="jp-TPULab-input"
            value={run.key}
            onChange={event => {
              const chosen = runs.find(({ key }) => key === event.currentTarget.value);
              if (chosen) {
                onSelect(chosen);
              }
            }}
          >
            {[...runs].reverse().map(other => (
              <option key={other.key} value={other.key}>
                {`${other.name} · ${stateText(other, trans)}`}
              </option>
            ))}
          </select>
        </label>
      ) : null}
      <Head {...props} run={run} />
      <Buttons run={run} control={control} trans={trans} />
      <Hyperparameters run={run} control={control} trans={trans} />
      <MetricsView
        sources={sources}
        names={metricNames(run.series.keys())}
        version={run.version}
        loop={props.loop}
        trans={trans}
      />
      <KeptRunsView {...props} compared={compared} onCompare={setCompared} />
      <LogView run={loggedRun(run)} trans={trans} />
      <Config run={run} trans={trans} />
    </div>
  );
}

function loggedRun({ bands, commands, control, state }: Run): LoggedRun {
  return { bands, commands, file: control?.log ?? null, over: state !== 'running' };
}

function sourceOf(run: Run): MetricSource {
  return { key: run.key, label: run.name, series: name => run.series.get(name) ?? null };
}

function Head({ run, window, trans }: RunViewProps & { readonly run: Run }): JSX.Element {
  const summary = summarize(run.steps, window);
  const [name, series] = [...run.series].find(([one]) => /loss/i.test(one)) ?? [];
  return (
    <>
      <div className="jp-TPULab-row">
        <strong>
          {name === undefined ? run.name : name}{' '}
          {series ? <span className="jp-TPULab-number">{metricText(series.last)}</span> : null}
        </strong>
        <span className={`jp-TPULabRun-state jp-mod-${run.control?.state ?? run.state}`}>
          {stateText(run, trans)}
        </span>
      </div>
      {summary ? <ProgressLine run={run} summary={summary} trans={trans} /> : null}
    </>
  );
}

interface PartProps {
  readonly run: Run;
  readonly control: ControlModel | null;
  readonly trans: TranslationBundle;
}

function Buttons({ run, control, trans }: PartProps): JSX.Element | null {
  const buttons = buttonsOf(run);
  if (buttons.length === 0) {
    return run.state === 'running' ? (
      <p className="jp-TPULab-quiet">{trans.__('View only. Use tpulab.run to pause, change or stop it.')}</p>
    ) : null;
  }
  const failures = (control?.failed ?? []).filter(({ action }) => action !== 'set' && action !== 'free');
  return (
    <>
      <div className="jp-TPULab-buttons" role="group" aria-label={trans.__('Steer the run')}>
        {buttons.map(({ action, enabled, primary }) => {
          const pending = control?.pendingOf(action) ?? null;
          return (
            <button
              key={action}
              type="button"
              className={`jp-TPULab-button${primary ? ' jp-mod-primary' : ''}`}
              disabled={!enabled || !control || pending !== null}
              aria-busy={pending !== null}
              onClick={() => void control?.request({ action, run: run.id })}
            >
              {actionText(action, trans)}
              {pending ? '…' : ''}
            </button>
          );
        })}
      </div>
      {failures.map(({ action, text }) => (
        <p key={action} className="jp-TPULab-failure" role="alert">
          {`${actionText(action, trans)}: ${text}`}
        </p>
      ))}
    </>
  );
}

function Hyperparameters({ run, control, trans }: PartProps): JSX.Element | null {
  const parameters = run.control?.hyperparameters ?? [];
  if (parameters.length === 0) {
    return null;
  }
  const disabled = run.state !== 'running' || !control;
  return (
    <div className="jp-TPULabHypers">
      {parameters.map(parameter => (
        <HyperView
          key={parameter.name}
          parameter={parameter}
          pending={control?.pendingOf('set', parameter.name)?.value ?? null}
          failure={control?.failed.find(({ name }) => name === parameter.name)?.text ?? null}
          disabled={disabled}
          onSet={value => void control?.request({ action: 'set', run: run.id, name: parameter.name, value })}
          trans={trans}
        />
      ))}
      {disabled ? null : <p className="jp-TPULab-quiet">{trans.__('Changes apply from the next step.')}</p>}
    </div>
  );
}

function Config({
  run,
  trans
}: {
  readonly run: Run;
  readonly trans: TranslationBundle;
}): JSX.Element | null {
  const entries = Object.entries(run.control?.config ?? {});
  if (entries.length === 0) {
    return null;
  }
  return (
    <details className="jp-TPULabConfig">
      <summary>{trans._n('Started with %1 setting', 'Started with %1 settings', entries.length)}</summary>
      <dl>
        {entries.map(([name, value]) => (
          <div key={name} className="jp-TPULab-row">
            <dt>{name}</dt>
            <dd className="jp-TPULab-number">{value === null ? '–' : valueText(value)}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
