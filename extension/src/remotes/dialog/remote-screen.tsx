/** The screen of the chosen remote: progress, a question, an error, or the next actions. */
import { type JSX, useState } from 'react';
import type { ConsentFigure, RemoteConsent, RemotePrompt } from '@tpulab/protocol';
import { useSeconds } from '../../ui/use-changes.js';
import { LogView } from '../log-view.js';
import { stateText } from '../state-text.js';
import { ConnectedScreen } from './connected-screen.js';
import { ErrorCard } from './error-card.js';
import { FIRST, Frame } from './frame.js';
import { Icon } from './icons.js';
import { matchesFingerprint, HostKeyCard, SecretCard } from './question.js';
import { Remedies } from './remedies.js';
import type { IRemoteProps } from './remote-props.js';
import { progressOf } from './stage-rows.js';
import { Bar, StagesView } from './stages-view.js';
import { Button } from '../../ui/button.js';
import { trans } from '../../text/trans.js';

export function RemoteScreen(props: IRemoteProps): JSX.Element {
  const { remote } = props;
  if (remote.prompt) return <PromptScreen key={remote.prompt.id} {...props} prompt={remote.prompt} />;
  switch (remote.state) {
    case 'connected':
      return <ConnectedScreen {...props} />;
    case 'failed':
    case 'preempted':
    case 'disconnected':
      return <FailedScreen {...props} />;
    default:
      return <ProgressScreen {...props} />;
  }
}

function ProgressScreen({ remote, actions, onClose }: IRemoteProps): JSX.Element {
  const { name, state } = remote;
  const isReconnecting = state === 'reconnecting';
  const isQueued = state === 'queued';
  useSeconds(isReconnecting || isQueued);
  const progress = progressOf(remote);
  const { label, detail } = stateText(remote, Date.now());
  return (
    <Frame
      screen={`progress ${name}`}
      title={isReconnecting ? trans.__('Reconnecting to %1', name) : trans.__('Connecting to %1', name)}
      onClose={onClose}
      aside={
        <span className="jp-TPULabQuiet jp-mod-small">
          {isQueued
            ? trans.__('You can close this dialog; TPULab connects when the VM is ready.')
            : trans.__('Setup continues if you close this dialog.')}
        </span>
      }
      buttons={
        <>
          {isReconnecting ? (
            <Button onClick={() => void actions.connect(name)}>
              <Icon name="retry" />
              {trans.__('Reconnect now')}
            </Button>
          ) : null}
          <Button onClick={() => void actions.disconnect(name)}>
            {isReconnecting
              ? trans.__('Disconnect')
              : isQueued
                ? trans.__('Stop waiting')
                : trans.__('Stop setup')}
          </Button>
          <Button {...FIRST} onClick={onClose}>
            {trans.__('Close')}
          </Button>
        </>
      }
    >
      {isReconnecting || isQueued ? (
        <section className="jp-TPULabDialogCard jp-mod-hint" role="status">
          <h3 className="jp-TPULabState-word">{label}</h3>
          <p>{detail}</p>
          {remote.error === null ? null : <p className="jp-TPULabQuiet">{remote.error.message}</p>}
        </section>
      ) : (
        <>
          <div className="jp-TPULabOverall">
            <strong role="status">{progress.doing}</strong>
            <span className="jp-TPULabQuiet">
              {trans.__('step %1 of %2', progress.step, progress.rows.length)}
            </span>
          </div>
          <Bar fraction={progress.fraction} label={trans.__('Setup')} />
        </>
      )}
      <StagesView rows={progress.rows} {...{ remote, actions }} />
      <LogView {...{ remote, actions }} />
    </Frame>
  );
}

function PromptScreen({
  remote,
  prompt,
  actions,
  onClose
}: IRemoteProps & { readonly prompt: RemotePrompt }): JSX.Element {
  const { name } = remote;
  const { hostKey, consent, kind, id } = prompt;
  const [pasted, setPasted] = useState('');
  const [isAnswered, setAnswered] = useState(false);
  const answer = (value: string | boolean): void => {
    setAnswered(true);
    void actions.answer(name, id, value).then(isAccepted => setAnswered(isAccepted));
  };
  const isOther = hostKey !== undefined && matchesFingerprint(hostKey.fingerprint, pasted) === 'other';
  const form = 'jp-TPULabDialog-secret';
  return (
    <Frame
      screen={`prompt ${id}`}
      title={trans.__('Connecting to %1', name)}
      onClose={onClose}
      aside={
        hostKey ? (
          <span className="jp-TPULabQuiet jp-mod-small">
            {trans.__('The key is remembered in known_hosts.')}
          </span>
        ) : null
      }
      buttons={
        <>
          <Button {...(consent ? FIRST : {})} disabled={isAnswered} onClick={() => answer(false)}>
            {consent || hostKey || kind === 'secret' ? trans.__("Don't connect") : trans.__('No')}
          </Button>
          {hostKey || consent ? (
            <Button kind="primary" disabled={isOther || isAnswered} onClick={() => answer(true)}>
              {consent ? consent.accept : trans.__('Trust and connect')}
            </Button>
          ) : (
            <button
              type="submit"
              form={form}
              className="jp-TPULabButton jp-mod-primary"
              disabled={isAnswered}
            >
              {kind === 'secret' ? trans.__('Send') : trans.__('Yes')}
            </button>
          )}
        </>
      }
    >
      {actions.problem === null ? null : <ErrorCard message={actions.problem} />}
      {consent ? (
        <ConsentCard {...{ consent }} />
      ) : hostKey ? (
        <HostKeyCard {...{ name, hostKey, pasted }} onPasted={setPasted} />
      ) : (
        <SecretCard {...{ name, prompt, form }} onAnswer={answer} />
      )}
      <StagesView
        rows={progressOf(remote).rows.filter(({ state }) => state !== 'to-come')}
        {...{ remote, actions }}
      />
    </Frame>
  );
}

function FailedScreen({ remote, actions, onBack, onClose }: IRemoteProps): JSX.Element {
  const { name, state, error } = remote;
  const [isBusy, setBusy] = useState(false);
  const again = (): void => {
    setBusy(true);
    void actions.connect(name).then(() => setBusy(false));
  };
  const isStopped = state === 'disconnected';
  const isEnding = actions.ending === name;
  return (
    <Frame
      screen={`failed ${name}`}
      title={
        isEnding
          ? trans.__('Ending the runtime of %1', name)
          : isStopped
            ? trans.__('%1 is not connected', name)
            : trans.__('Could not connect to %1', name)
      }
      onClose={onClose}
      aside={
        <Button kind="bare" onClick={onBack}>
          <Icon name="left" />
          <span className="jp-TPULabWide">{trans.__('Back to the list')}</span>
          <span className="jp-TPULabNarrow">{trans.__('Back')}</span>
        </Button>
      }
      buttons={
        <>
          <Button className="jp-TPULabWide" onClick={onClose}>
            {trans.__('Close')}
          </Button>
          <Button kind="primary" {...FIRST} disabled={isBusy || isEnding} onClick={again}>
            <Icon name="retry" />
            {isStopped ? trans.__('Connect') : trans.__('Try again')}
          </Button>
        </>
      }
    >
      {actions.problem === null ? null : <ErrorCard message={actions.problem} />}
      {isEnding ? (
        <p role="status">
          <span className="jp-TPULabRing" />{' '}
          {trans.__('Waiting for Colab to end the runtime. It uses compute units until then.')}
        </p>
      ) : null}
      {error === null ? null : (
        <ErrorCard message={error.message} command={error.command}>
          <Remedies {...{ remote, actions }} />
        </ErrorCard>
      )}
      <StagesView rows={progressOf(remote).rows} {...{ remote, actions }} />
      <LogView {...{ remote, actions }} />
    </Frame>
  );
}

interface IConsentProps {
  readonly consent: RemoteConsent;
}

function ConsentCard({ consent }: IConsentProps): JSX.Element {
  const { title, terms, figures, source } = consent;
  return (
    <section className="jp-TPULabDialogCard jp-mod-ask" aria-label={title}>
      <h3>{title}</h3>
      {terms.map(term => (
        <p key={term}>{term}</p>
      ))}
      <dl className="jp-TPULabFigures">
        {figures.map(figure => (
          <div key={figure.name}>
            <dt className="jp-TPULabQuiet">{figure.label}</dt>
            <dd>{figureText(figure)}</dd>
          </div>
        ))}
      </dl>
      {source === null ? null : (
        <a href={source} target="_blank" rel="noopener noreferrer">
          {trans.__('Read the terms')}
        </a>
      )}
    </section>
  );
}

/** An unknown figure is labelled as unknown. */
function figureText({ value, unit }: ConsentFigure): string {
  if (value === null) return trans.__('unknown');
  const text = String(Math.round(value * 100) / 100);
  return unit === '' ? text : `${text} ${unit}`;
}
