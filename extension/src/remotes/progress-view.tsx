/** A remote in the tab with all of them: its state, remedies for an error, its stages, and its log. */
import type { JSX } from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Remote } from '@tpulab/protocol';
import { useSeconds } from '../ui/use-changes.js';
import type { RemoteActions } from './actions.js';
import { ErrorCard } from './dialog/error-card.js';
import { Remedies } from './dialog/remedies.js';
import { progressOf } from './dialog/stage-rows.js';
import { StagesView } from './dialog/stages-view.js';
import { LogView } from './log-view.js';
import { stateText } from './state-text.js';

export interface IProgressProps {
  readonly remote: Remote;
  readonly actions: RemoteActions;
  readonly trans: TranslationBundle;
  /** Shows the dialog, where questions are answered. */
  readonly onAnswer: () => void;
}

export function ProgressView({ remote, actions, trans, onAnswer }: IProgressProps): JSX.Element {
  useSeconds(remote.state === 'reconnecting' || remote.state === 'queued');
  const { label, detail } = stateText(remote, Date.now(), trans);
  return (
    <div className="jp-TPULabRemote-progress">
      <p role="status" className={`jp-TPULabRemote-state jp-mod-${remote.state}`}>
        <strong>{label}</strong> {remote.state === 'failed' ? null : detail}
      </p>
      {remote.prompt === null ? null : (
        <button type="button" className="jp-TPULabButton jp-mod-primary" onClick={onAnswer}>
          {trans.__('Answer…')}
        </button>
      )}
      {remote.error === null ? null : (
        <ErrorCard message={remote.error.message} command={remote.error.command} trans={trans}>
          <Remedies {...{ remote, actions, trans }} />
        </ErrorCard>
      )}
      <StagesView rows={progressOf(remote, trans).rows} {...{ remote, actions, trans }} />
      <LogView remote={remote} actions={actions} trans={trans} />
    </div>
  );
}
