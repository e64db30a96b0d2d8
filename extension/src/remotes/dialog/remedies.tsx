/** The gateway's automatic remedies for an error or a warning, on a button. */
import { type JSX, useState } from 'react';
import type { Remote, RemoteAction } from '@tpulab/protocol';
import type { RemoteActions } from '../actions.js';
import { Button } from '../../ui/button.js';
import { trans } from '../../text/trans.js';

interface IActionProps {
  readonly remote: Remote;
  readonly actions: RemoteActions;
  readonly action: RemoteAction;
}

export function ActionButton({ remote, actions, action }: IActionProps): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const act = (): void => {
    setBusy(true);
    void actions.connect(remote.name, action.connect).then(() => setBusy(false));
  };
  return (
    <Button disabled={isBusy} onClick={act}>
      {action.label}
    </Button>
  );
}

type IRemediesProps = Omit<IActionProps, 'action'> & {};

export function Remedies({ remote, actions }: IRemediesProps): JSX.Element {
  const { error } = remote;
  return (
    <>
      {error?.action ? <ActionButton {...{ remote, actions }} action={error.action} /> : null}
      {error?.code === 'setup_other_build' ? (
        <ActionButton
          {...{ remote, actions }}
          action={{ label: trans.__('Connect anyway'), connect: { takeOver: true } }}
        />
      ) : null}
    </>
  );
}
