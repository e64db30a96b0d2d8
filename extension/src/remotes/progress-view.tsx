/** How connecting goes: stages, checks with their remedies, ssh's questions, and what to do about an error. */
import { type FormEvent, type JSX, useState } from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Remote, RemoteCheck, RemotePrompt, RemoteStage } from '@tpulab/protocol';
import { useSeconds } from '../panel/use-changes.js';
import type { RemoteActions } from './actions.js';
import { LogView } from './log-view.js';
import { stateText } from './state-text.js';

export interface IProgressProps {
  readonly remote: Remote;
  readonly actions: RemoteActions;
  readonly trans: TranslationBundle;
}

export function ProgressView({ remote, actions, trans }: IProgressProps): JSX.Element {
  useSeconds(remote.state === 'reconnecting');
  const { label, detail } = stateText(remote, Date.now(), trans);
  return (
    <div className="jp-TPULabRemote-progress">
      <p role="status" className={`jp-TPULabRemote-state jp-mod-${remote.state}`}>
        <strong>{label}</strong> {remote.state === 'failed' ? null : detail}
      </p>
      {remote.prompt ? (
        <Question key={remote.prompt.id} {...{ remote, actions, trans }} prompt={remote.prompt} />
      ) : null}
      {remote.error ? <ErrorView {...remote.error} trans={trans} /> : null}
      {remote.error?.code === 'setup_other_build' ? (
        <div className="jp-TPULabRemote-buttons">
          <button
            type="button"
            className="jp-mod-styled"
            onClick={() => void actions.connect(remote.name, { takeOver: true })}
          >
            {trans.__('Connect anyway')}
          </button>
        </div>
      ) : null}
      {remote.stages.length > 0 ? (
        <ol className="jp-TPULabRemote-stages" aria-label={trans.__('Stages')}>
          {remote.stages.map(stage => (
            <Stage key={stage.name} stage={stage} trans={trans} />
          ))}
        </ol>
      ) : null}
      <Checks checks={remote.checks} trans={trans} />
      <LogView remote={remote} actions={actions} trans={trans} />
    </div>
  );
}

const MARKS: Readonly<Record<RemoteStage['state'], string>> = {
  running: '▸',
  done: '✓',
  skipped: '–',
  failed: '✕'
};

function Stage({ stage, trans }: { stage: RemoteStage; trans: TranslationBundle }): JSX.Element {
  const names: Record<RemoteStage['state'], string> = {
    running: trans.__('running'),
    done: trans.__('done'),
    skipped: trans.__('not needed'),
    failed: trans.__('failed')
  };
  return (
    <li className={`jp-mod-${stage.state}`}>
      <span aria-hidden="true" className="jp-TPULabRemote-mark">
        {MARKS[stage.state]}
      </span>
      <span className="jp-TPULabRemote-title">{stage.title}</span>
      <span className="jp-TPULab-quiet jp-TPULab-number">{stage.detail ?? names[stage.state]}</span>
      {stage.state === 'running' && stage.fraction !== null ? (
        <progress value={stage.fraction} aria-label={stage.title} />
      ) : null}
    </li>
  );
}

function Checks({
  checks,
  trans
}: {
  checks: readonly RemoteCheck[];
  trans: TranslationBundle;
}): JSX.Element | null {
  const wrong = checks.filter(({ state }) => state !== 'ok');
  if (checks.length === 0) {
    return null;
  }
  return (
    <section aria-label={trans.__('Checks')}>
      <p className="jp-TPULab-quiet">
        {trans._n('%1 check was made', '%1 checks were made', checks.length)}
        {wrong.length === 0 ? trans.__(': all is well.') : ':'}
      </p>
      {wrong.length > 0 ? (
        <ul className="jp-TPULabRemote-checks">
          {wrong.map(({ name, state, message, remedy }) => (
            <li key={name} className={`jp-mod-${state}`}>
              <strong>{state === 'failed' ? trans.__('Failed') : trans.__('Warning')}</strong>: {message}
              {remedy === null ? null : <div className="jp-TPULab-quiet">{remedy}</div>}
            </li>
          ))}
        </ul>
      ) : null}
    </section>
  );
}

interface IQuestionProps extends IProgressProps {
  readonly prompt: RemotePrompt;
}

function Question({ remote, prompt, actions, trans }: IQuestionProps): JSX.Element {
  const [value, setValue] = useState('');
  const answer = (given: string | boolean): void => void actions.answer(remote.name, prompt.id, given);
  const onSubmit = (event: FormEvent): void => {
    event.preventDefault();
    answer(prompt.kind === 'secret' ? value : true);
  };
  const id = `jp-TPULabRemote-prompt-${prompt.id}`;
  return (
    <form className="jp-TPULabRemote-prompt" onSubmit={onSubmit}>
      <label htmlFor={id}>
        <strong>{trans.__('%1 asks:', prompt.host)}</strong> <span>{prompt.text}</span>
      </label>
      {prompt.kind === 'secret' ? (
        <input
          id={id}
          className="jp-mod-styled"
          type="password"
          autoComplete="off"
          autoFocus
          value={value}
          onChange={event => setValue(event.target.value)}
        />
      ) : (
        <p id={id} className="jp-TPULab-quiet">
          {trans.__('Compare the fingerprint with the one that whoever runs the machine has told you.')}
        </p>
      )}
      <div className="jp-TPULabRemote-buttons">
        <button type="submit" className="jp-mod-styled jp-mod-accept">
          {prompt.kind === 'secret' ? trans.__('Send') : trans.__('It is right: connect')}
        </button>
        <button type="button" className="jp-mod-styled" onClick={() => answer(false)}>
          {trans.__('Decline')}
        </button>
      </div>
    </form>
  );
}

interface IErrorProps {
  readonly message: string;
  readonly command: string | null;
  readonly trans: TranslationBundle;
}

export function ErrorView({ message, command, trans }: IErrorProps): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  const copy = (): void => {
    navigator.clipboard.writeText(command ?? '').then(
      () => setCopied(true),
      () => setCopied(false)
    );
  };
  return (
    <div className="jp-TPULabRemote-error" role="alert">
      <p>{message}</p>
      {command === null ? null : (
        <div className="jp-TPULabRemote-command">
          <code>{command}</code>
          <button type="button" className="jp-mod-styled" onClick={copy}>
            {isCopied ? trans.__('Copied') : trans.__('Copy')}
          </button>
        </div>
      )}
    </div>
  );
}
