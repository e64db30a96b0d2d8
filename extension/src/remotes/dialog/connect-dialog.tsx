/** The dialog "Connect to a TPU…": first the choice of a target, then the progress. Closing it stops nothing. */
import { type JSX, useState } from 'react';
import { ReactWidget } from '@jupyterlab/ui-components';
import { useChanges } from '../../ui/use-changes.js';
import type { RemoteActions } from '../actions.js';
import { FormDialog } from '../form-dialog.js';
import { ChooseScreen } from './choose-screen.js';
import { TITLE_ID } from './frame.js';
import type { IConnectPage } from './remote-props.js';
import { RemoteScreen } from './remote-screen.js';

interface IConnectOptions {
  readonly actions: RemoteActions;
  readonly page: IConnectPage;
  /** The shown remote; null to choose one. */
  readonly name: string | null;
}

/** Resolves when the dialog is closed. */
export async function showConnectDialog({ name, ...parts }: IConnectOptions): Promise<void> {
  const body = ReactWidget.create(<ConnectBody {...parts} initial={name} onClose={() => dialog.reject()} />);
  const dialog = new FormDialog(body, TITLE_ID);
  await dialog.launch();
}

interface IBodyProps extends Omit<IConnectOptions, 'name'> {
  readonly initial: string | null;
  readonly onClose: () => void;
}

export function ConnectBody({ actions, page, initial, onClose }: IBodyProps): JSX.Element {
  const [name, setName] = useState(initial);
  useChanges(actions.remotes, false, 250);
  useChanges(actions, false, 0);
  const remote = name === null ? null : actions.remotes.get(name);
  return remote === null ? (
    <ChooseScreen onChosen={setName} {...{ actions, page, onClose }} />
  ) : (
    <RemoteScreen onBack={() => setName(null)} {...{ remote, actions, page, onClose }} />
  );
}
