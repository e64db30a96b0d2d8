/** The content below the head of a run: its controls, other runs, its requests, and how it was started. */
import type { RunControl } from '@tpulab/protocol';
import type { JSX } from 'react';
import type { Run } from '../events/run.js';
import { valueText } from '../text/value.js';
import { HyperView } from './hyper-view.js';
import type { LoggedRun } from './log-view.js';
import type { ControlModel } from './model.js';
import { trans } from '../text/trans.js';

export const RUN_EXAMPLE =
  'run = tpulab.run("train",\n  hyperparameters={"lr": 3e-4})\nfor batch in run.steps(data):\n  …';

export function NoRun(): JSX.Element {
  return (
    <div className="jp-TPULabEmpty">
      <p>{trans.__('No run yet. A run can be watched and steered while its cell is busy:')}</p>
      <pre className="jp-TPULabEmpty-code">{RUN_EXAMPLE}</pre>
    </div>
  );
}

export function loggedRun({ bands, commands, control, state }: Run): LoggedRun {
  return { bands, commands, file: control?.log ?? null, over: state !== 'running' };
}

interface HypersViewProps {
  readonly run: Run;
  readonly control: ControlModel | null;
}

export function HypersView({ run, control }: HypersViewProps): JSX.Element {
  const disabled = run.state !== 'running' || !control;
  return (
    <div className="jp-TPULabHypers">
      {(run.control?.hyperparameters ?? []).map(parameter => (
        <HyperView
          key={parameter.name}
          parameter={parameter}
          pending={control?.pendingOf('set', parameter.name)?.value ?? null}
          failure={control?.failed.find(({ name }) => name === parameter.name)?.text ?? null}
          disabled={disabled}
          onSet={value => void control?.request({ action: 'set', run: run.id, name: parameter.name, value })}
        />
      ))}
    </div>
  );
}

/** Null for a run without settings. */
export function ConfigView({ run }: { readonly run: Run }): JSX.Element | null {
  const config = run.control?.config ?? {};
  const count = Object.keys(config).length;
  return count === 0 ? null : (
    <details className="jp-TPULabConfig">
      <summary>{trans._n('Started with %1 setting', 'Started with %1 settings', count)}</summary>
      <SettingsList settings={config} />
    </details>
  );
}

export function SettingsList({ settings }: { readonly settings: RunControl['config'] }): JSX.Element {
  return (
    <dl className="jp-TPULabConfig">
      {Object.entries(settings).map(([name, value]) => (
        <div key={name} className="jp-TPULab-row">
          <dt>{name}</dt>
          <dd className="jp-TPULab-number">{value === null ? '–' : valueText(value)}</dd>
        </div>
      ))}
    </dl>
  );
}
