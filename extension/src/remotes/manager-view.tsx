/** All remotes with their possible actions. */
import { type JSX, useState } from 'react';
import { type Remote, sizeText } from '@tpulab/protocol';
import { useChanges, useSeconds } from '../ui/use-changes.js';
import type { RemoteActions } from './actions.js';
import { sourceName } from '../backends/remote-names.js';
import { NoticeText } from './notice-view.js';
import { ErrorCard } from './dialog/error-card.js';
import { figuresText, canCancel, stateText } from './state-text.js';
import { Remedies } from './dialog/remedies.js';
import { progressOf } from './dialog/stage-rows.js';
import { StagesView } from './dialog/stages-view.js';
import { LogView } from './log-view.js';
import { Button } from '../ui/button.js';
import { trans } from '../text/trans.js';

interface IManagerProps {
  readonly actions: RemoteActions;
  readonly onAdd: () => void;
  /** Shows the dialog of this remote. */
  readonly onShow: (name: string) => void;
  readonly onSync: (name: string) => void;
  /** The remote that is unfolded at first. */
  readonly initial: string | null;
}

export function ManagerView({ actions, onAdd, onShow, onSync, initial }: IManagerProps): JSX.Element {
  useChanges(actions.remotes, false);
  useChanges(actions, false, 0);
  const { all } = actions.remotes;
  useSeconds(all.some(({ state, notice }) => state === 'reconnecting' || notice !== null));
  const [opened, setOpened] = useState<string | null>(initial);
  return (
    <div className="jp-TPULabRemotes jp-TPULabSurface">
      <div className="jp-TPULabRemotes-head">
        <h2>{trans.__('Machines')}</h2>
        <Button kind="primary" onClick={onAdd}>
          {trans.__('Connect to a TPU…')}
        </Button>
      </div>
      {actions.problem === null ? null : <ErrorCard message={actions.problem} />}
      {all.length === 0 ? (
        <p className="jp-TPULab-quiet">
          {trans.__(
            'None yet. The kernels of a connected machine are listed next to the kernels of this computer.'
          )}
        </p>
      ) : null}
      <ul aria-label={trans.__('Machines')}>
        {all.map(remote => (
          <li key={remote.name} className="jp-TPULabRemotes-item">
            <RemoteRow
              {...{ remote, actions, onSync }}
              isOpen={opened === remote.name}
              onToggle={() => setOpened(opened === remote.name ? null : remote.name)}
            />
            {opened === remote.name ? (
              <Details {...{ remote, actions }} onAnswer={() => onShow(remote.name)} />
            ) : null}
          </li>
        ))}
      </ul>
    </div>
  );
}

interface IRowProps {
  readonly remote: Remote;
  readonly actions: RemoteActions;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
  readonly onSync: (name: string) => void;
}

function RemoteRow({ remote, actions, isOpen, onToggle, onSync }: IRowProps): JSX.Element {
  const { name, state } = remote;
  const { label } = stateText(remote, Date.now());
  const [isAsking, setAsking] = useState(false);
  const button = (text: string, action: () => void): JSX.Element => (
    <Button onClick={action} aria-label={`${text}: ${name}`}>
      {text}
    </Button>
  );
  return (
    <div className="jp-TPULabRemotes-row">
      <button
        type="button"
        className="jp-TPULabRemotes-name"
        aria-expanded={isOpen}
        aria-label={trans.__('%1, details', name)}
        onClick={onToggle}
      >
        <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span> {name}
      </button>
      <span className={`jp-TPULabRemote-state jp-TPULabState-word jp-mod-${state}`}>{label}</span>
      <span className="jp-TPULab-quiet jp-TPULab-number">{figuresText(remote)}</span>
      <span className="jp-TPULabRemote-buttons">
        {state === 'connected' ? button(trans.__('Copy folder…'), () => onSync(name)) : null}
        {state === 'reconnecting' || state === 'queued'
          ? button(trans.__('Reconnect now'), () => void actions.connect(name))
          : null}
        {state === 'disconnected' || state === 'failed' || state === 'preempted'
          ? button(trans.__('Connect'), () => void actions.connect(name))
          : button(canCancel(remote) ? trans.__('Cancel') : trans.__('Disconnect'), () => {
              void actions.disconnect(name);
            })}
        {remote.source.kind === 'colab' && remote.hosts.length > 0
          ? button(trans.__('Disconnect and end runtime'), () => void actions.disconnect(name, true))
          : null}
        {isAsking
          ? button(trans.__('Remove for good'), () => void actions.remove(name))
          : button(trans.__('Remove'), () => setAsking(true))}
      </span>
    </div>
  );
}

interface IDetailsProps {
  readonly remote: Remote;
  readonly actions: RemoteActions;
  /** Shows the dialog, where questions are answered. */
  readonly onAnswer: () => void;
}

function Details({ remote, actions, onAnswer }: IDetailsProps): JSX.Element {
  const { mirror, notice } = remote;
  return (
    <div className="jp-TPULabRemotes-details">
      <dl>
        <dt>{trans.__('Address')}</dt>
        <dd>{sourceName(remote.source)}</dd>
        <dt>{trans.__('Environment')}</dt>
        <dd>{remote.environment}</dd>
        <dt>{trans.__('Saved locally')}</dt>
        <dd className="jp-TPULab-number">
          {trans._n('output of %1 kernel', 'output of %1 kernels', mirror.kernels)}, {sizeText(mirror.bytes)}
          {mirror.behindBytes > 0 ? `, ${trans.__('%1 pending', sizeText(mirror.behindBytes))}` : ''}
          {mirror.putAside ? `, ${trans.__('%1 archived', mirror.putAside)}` : ''}
        </dd>
      </dl>
      {notice === null ? null : <NoticeText {...{ remote, notice }} />}
      <ProgressView {...{ remote, actions, onAnswer }} />
    </div>
  );
}

/** A remote in the tab with all of them: its state, remedies for an error, its stages, and its log. */
function ProgressView({ remote, actions, onAnswer }: IDetailsProps): JSX.Element {
  useSeconds(remote.state === 'reconnecting' || remote.state === 'queued');
  const { label, detail } = stateText(remote, Date.now());
  return (
    <div className="jp-TPULabRemote-progress">
      <p role="status" className={`jp-TPULabRemote-state jp-mod-${remote.state}`}>
        <strong>{label}</strong> {remote.state === 'failed' ? null : detail}
      </p>
      {remote.prompt === null ? null : (
        <Button kind="primary" onClick={onAnswer}>
          {trans.__('Answer…')}
        </Button>
      )}
      {remote.error === null ? null : (
        <ErrorCard message={remote.error.message} command={remote.error.command}>
          <Remedies {...{ remote, actions }} />
        </ErrorCard>
      )}
      <StagesView rows={progressOf(remote).rows} {...{ remote, actions }} />
      <LogView remote={remote} actions={actions} />
    </div>
  );
}
