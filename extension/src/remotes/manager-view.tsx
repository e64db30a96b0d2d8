/** All remotes with what can be done about each. */
import { type JSX, useState } from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Remote } from '@tpulab/protocol';
import { useChanges, useSeconds } from '../panel/use-changes.js';
import { sizeText } from '../text/size.js';
import type { RemoteActions } from './actions.js';
import { sourceName } from './names.js';
import { NoticeText } from './notice-view.js';
import { ErrorView, ProgressView } from './progress-view.js';
import { figuresText, isUnderWay, stateText } from './state-text.js';

export interface IManagerProps {
  readonly actions: RemoteActions;
  readonly trans: TranslationBundle;
  readonly onAdd: () => void;
  readonly onSync: (name: string) => void;
  /** The remote that is shown in full at first. */
  readonly initial: string | null;
}

export function ManagerView({ actions, trans, onAdd, onSync, initial }: IManagerProps): JSX.Element {
  useChanges(actions.remotes, false);
  useChanges(actions, false, 0);
  const { all } = actions.remotes;
  useSeconds(all.some(({ state, notice }) => state === 'reconnecting' || notice !== null));
  const [opened, setOpened] = useState<string | null>(initial);
  return (
    <div className="jp-TPULabRemotes">
      <div className="jp-TPULabRemotes-head">
        <h2>{trans.__('Remotes')}</h2>
        <button type="button" className="jp-mod-styled jp-mod-accept" onClick={onAdd}>
          {trans.__('Connect to a TPU VM…')}
        </button>
      </div>
      {actions.problem === null ? null : <ErrorView message={actions.problem} command={null} trans={trans} />}
      {all.length === 0 ? (
        <p className="jp-TPULab-quiet">
          {trans.__(
            'There are none yet. Kernels of a machine that you connect to stand beside those of this one.'
          )}
        </p>
      ) : null}
      <ul aria-label={trans.__('Remotes')}>
        {all.map(remote => (
          <li key={remote.name} className="jp-TPULabRemotes-item">
            <RemoteRow
              {...{ remote, actions, trans, onSync }}
              isOpen={opened === remote.name}
              onToggle={() => setOpened(opened === remote.name ? null : remote.name)}
            />
            {opened === remote.name ? <Details {...{ remote, actions, trans }} /> : null}
          </li>
        ))}
      </ul>
    </div>
  );
}

interface IRowProps {
  readonly remote: Remote;
  readonly actions: RemoteActions;
  readonly trans: TranslationBundle;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
  readonly onSync: (name: string) => void;
}

function RemoteRow({ remote, actions, trans, isOpen, onToggle, onSync }: IRowProps): JSX.Element {
  const { name, state } = remote;
  const { label } = stateText(remote, Date.now(), trans);
  const [isAsking, setAsking] = useState(false);
  const button = (text: string, action: () => void): JSX.Element => (
    <button type="button" className="jp-mod-styled" onClick={action} aria-label={`${text}: ${name}`}>
      {text}
    </button>
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
      <span className={`jp-TPULabRemote-state jp-mod-${state}`}>{label}</span>
      <span className="jp-TPULab-quiet jp-TPULab-number">{figuresText(remote, trans)}</span>
      <span className="jp-TPULabRemote-buttons">
        {state === 'connected' ? button(trans.__('Sync folder…'), () => onSync(name)) : null}
        {state === 'reconnecting'
          ? button(trans.__('Reconnect now'), () => void actions.connect(name))
          : null}
        {state === 'disconnected' || state === 'failed' || state === 'preempted'
          ? button(trans.__('Connect'), () => void actions.connect(name))
          : button(isUnderWay(remote) ? trans.__('Cancel') : trans.__('Disconnect'), () => {
              void actions.disconnect(name);
            })}
        {isAsking
          ? button(trans.__('Really remove'), () => void actions.remove(name))
          : button(trans.__('Remove'), () => setAsking(true))}
      </span>
    </div>
  );
}

interface IDetailsProps {
  readonly remote: Remote;
  readonly actions: RemoteActions;
  readonly trans: TranslationBundle;
}

function Details({ remote, actions, trans }: IDetailsProps): JSX.Element {
  const { mirror, notice } = remote;
  return (
    <div className="jp-TPULabRemotes-details">
      <dl>
        <dt>{trans.__('Address')}</dt>
        <dd>{sourceName(remote.source)}</dd>
        <dt>{trans.__('Environment')}</dt>
        <dd>{remote.environment}</dd>
        <dt>{trans.__('Kept here')}</dt>
        <dd className="jp-TPULab-number">
          {trans._n('output of %1 kernel', 'output of %1 kernels', mirror.kernels)}, {sizeText(mirror.bytes)}
          {mirror.behindBytes > 0 ? `, ${trans.__('%1 to come', sizeText(mirror.behindBytes))}` : ''}
        </dd>
      </dl>
      {notice === null ? null : <NoticeText {...{ remote, notice, trans }} />}
      <ProgressView {...{ remote, actions, trans }} />
    </div>
  );
}
