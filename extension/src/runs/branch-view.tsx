/** Begins the next run at a checkpoint of this one, with one value changed. */
import { checkpointSteps, countText, type Hyperparameter, type HyperValue } from '@tpulab/protocol';
import { type JSX, useState } from 'react';
import { HyperView } from './hyper-view.js';
import { trans } from '../text/trans.js';

export interface BranchRequest {
  readonly step: number;
  readonly name?: string;
  readonly value?: HyperValue;
}

interface BranchViewProps {
  readonly run: Parameters<typeof checkpointSteps>[0];
  readonly hyperparameters: readonly Hyperparameter[];
  /** The result, or the reason of a failure, as a sentence. */
  readonly onBranch: (request: BranchRequest) => Promise<string>;
}

export function BranchView({ run, hyperparameters, onBranch }: BranchViewProps): JSX.Element | null {
  const steps = checkpointSteps(run).reverse();
  const [step, setStep] = useState<number | null>(null);
  const [name, setName] = useState('');
  const [value, setValue] = useState<HyperValue | null>(null);
  const [answer, setAnswer] = useState('');
  const [newest] = steps;
  if (newest === undefined) {
    return null;
  }
  const parameter = hyperparameters.find(one => one.name === name);
  const branch = async (): Promise<void> => {
    const change = parameter && { name, value: value ?? parameter.value };
    setAnswer(await onBranch({ step: step ?? newest, ...change }));
  };
  return (
    <details className="jp-TPULabBranch">
      <summary>{trans.__('Branch…')}</summary>
      <p className="jp-TPULab-row">
        <label>
          {trans.__('From the checkpoint at step')}{' '}
          <select
            className="jp-TPULab-input"
            value={step ?? newest}
            onChange={event => setStep(Number(event.currentTarget.value))}
          >
            {steps.map(each => (
              <option key={each} value={each}>
                {countText(each)}
              </option>
            ))}
          </select>
        </label>
        {hyperparameters.length > 0 ? (
          <label>
            {trans.__('change')}{' '}
            <select
              className="jp-TPULab-input"
              value={name}
              onChange={event => {
                setName(event.currentTarget.value);
                setValue(null);
              }}
            >
              <option value="">{trans.__('nothing')}</option>
              {hyperparameters.map(each => (
                <option key={each.name} value={each.name}>
                  {each.name}
                </option>
              ))}
            </select>
          </label>
        ) : null}
        <button type="button" className="jp-TPULab-button" onClick={() => void branch()}>
          {trans.__('Branch')}
        </button>
      </p>
      {parameter ? (
        <HyperView
          parameter={{ ...parameter, value: value ?? parameter.value }}
          pending={null}
          failure={null}
          disabled={false}
          onSet={setValue}
        />
      ) : null}
      <p role="status">{answer}</p>
    </details>
  );
}
