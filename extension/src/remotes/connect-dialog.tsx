/** The dialog "Connect to a TPU VM…": first what to connect to, then how it goes. Closing it stops nothing. */
import { type JSX, useState } from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { useChanges } from '../panel/use-changes.js';
import type { RemoteActions } from './actions.js';
import { ChooseView } from './choose-view.js';
import { FormDialog } from './form-dialog.js';
import { ProgressView } from './progress-view.js';
import { isUnderWay } from './state-text.js';

export interface IConnectOptions {
  readonly actions: RemoteActions;
  readonly trans: TranslationBundle;
  /** The remote whose progress is shown; null to choose one. */
  readonly name: string | null;
}

/** Resolves when the dialog is closed. */
export async function showConnectDialog({ actions, trans, name }: IConnectOptions): Promise<void> {
  const body = ReactWidget.create(<ConnectBody actions={actions} trans={trans} initial={name} />);
  await new FormDialog(trans.__('Connect to a TPU VM'), body, trans.__('Close')).launch();
}

interface IBodyProps {
  readonly actions: RemoteActions;
  readonly trans: TranslationBundle;
  readonly initial: string | null;
}

function ConnectBody({ actions, trans, initial }: IBodyProps): JSX.Element {
  const [name, setName] = useState(initial);
  useChanges(actions.remotes, false, 250);
  const remote = name === null ? null : actions.remotes.get(name);
  if (remote === null) {
    return <ChooseView actions={actions} trans={trans} onChosen={setName} />;
  }
  const isOver = remote.state === 'failed' || remote.state === 'disconnected' || remote.state === 'preempted';
  return (
    <div>
      <h3>{remote.name}</h3>
      <ProgressView remote={remote} actions={actions} trans={trans} />
      {remote.state === 'connected' ? (
        <p>{trans.__('Choose one of its kernels in the launcher, or in the kernel picker of a notebook.')}</p>
      ) : null}
      <div className="jp-TPULabRemote-buttons">
        {isUnderWay(remote) ? (
          <button
            type="button"
            className="jp-mod-styled"
            onClick={() => void actions.disconnect(remote.name)}
          >
            {trans.__('Cancel connecting')}
          </button>
        ) : null}
        {isOver ? (
          <button
            type="button"
            className="jp-mod-styled jp-mod-accept"
            onClick={() => void actions.connect(remote.name)}
          >
            {trans.__('Try again')}
          </button>
        ) : null}
        <button type="button" className="jp-mod-styled" onClick={() => setName(null)}>
          {trans.__('Choose another')}
        </button>
      </div>
    </div>
  );
}
