/** The dialog "Connect to a TPU VM…": first what to connect to, then how it goes. Closing it stops nothing. */
import { type JSX, useState } from 'react';
import { Dialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { useChanges } from '../panel/use-changes.js';
import type { RemoteActions } from './actions.js';
import { ChooseView } from './choose-view.js';
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
  body.addClass('jp-TPULabConnect');
  const dialog = new Dialog({
    title: trans.__('Connect to a TPU VM'),
    body,
    hasClose: true,
    buttons: [Dialog.cancelButton({ label: trans.__('Close') })],
    // Enter belongs to the form inside.
    focusNodeSelector: 'input'
  });
  dialog.addClass('jp-TPULabConnect-dialog');
  await dialog.launch();
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
  // Lab's dialog closes on Enter and would take the keys of the fields.
  const keepKeys = (event: React.KeyboardEvent): void => {
    if (event.key === 'Enter') {
      event.stopPropagation();
    }
  };
  if (remote === null) {
    return (
      <div onKeyDown={keepKeys}>
        <ChooseView actions={actions} trans={trans} onChosen={setName} />
      </div>
    );
  }
  const isOver = remote.state === 'failed' || remote.state === 'disconnected' || remote.state === 'preempted';
  return (
    <div onKeyDown={keepKeys}>
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
