/** The dialog "Set up JAX on this machine": its requirements, its progress, and then the lessons. Closing it stops nothing. */
import { type JSX, useEffect, useState } from 'react';
import { ReactWidget } from '@jupyterlab/ui-components';
import {
  durationText,
  type EnvironmentCreation,
  secondsText,
  sizeText,
  transferText
} from '@tpulab/protocol';
import { useChanges, useSeconds } from '../ui/use-changes.js';
import { ErrorCard } from '../remotes/dialog/error-card.js';
import { FIRST, Frame, TITLE_ID } from '../remotes/dialog/frame.js';
import { Icon } from '../remotes/dialog/icons.js';
import { environmentName } from '../remotes/dialog/stage-rows.js';
import { Bar, StageNow } from '../remotes/dialog/stages-view.js';
import { FormDialog } from '../remotes/form-dialog.js';
import type { EnvironmentSetup } from './setup-model.js';
import { Button } from '../ui/button.js';
import { trans } from '../text/trans.js';

interface ISetupOptions {
  readonly setup: EnvironmentSetup;
  /** Copies the lessons and shows them. Throws readable errors. Null where a notebook waits for the kernel. */
  readonly onLessons: (() => Promise<void>) | null;
}

/** Resolves when the dialog is closed. */
export async function showSetupDialog(options: ISetupOptions): Promise<void> {
  const body = ReactWidget.create(<SetupBody {...options} onClose={() => dialog.reject()} />);
  const dialog = new FormDialog(body, TITLE_ID);
  await dialog.launch().finally(() => options.setup.dispose());
}

export function SetupBody({
  setup,
  onLessons,
  onClose
}: ISetupOptions & { readonly onClose: () => void }): JSX.Element {
  useChanges(setup, false, 0);
  const { status: creation, environment } = setup;
  const state = creation?.state ?? 'idle';
  const isRunning = state === 'running';
  // The name for the kernel picker ends with "on this machine".
  const name = environmentName(environment.name);
  useSeconds(isRunning);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => setBusy(false), [state]);
  const begin = (action: () => Promise<void>): void => {
    setBusy(true);
    setProblem(null);
    action()
      .catch((error: unknown) => setProblem(error instanceof Error ? error.message : String(error)))
      .finally(() => setBusy(false));
  };
  const size =
    environment.diskMiB == null
      ? ''
      : trans.__('It takes about %1 on disk.', sizeText(environment.diskMiB * 2 ** 20));
  const shownProblem = problem ?? setup.problem ?? creation?.error?.message ?? null;
  return (
    <Frame
      screen={`setup ${state}`}
      title={trans.__('Set up %1 on this machine', name)}
      onClose={onClose}
      aside={
        isRunning ? (
          <span className="jp-TPULabQuiet jp-mod-small">
            {trans.__('Setup continues if you close this dialog.')}
          </span>
        ) : null
      }
      buttons={
        <>
          {isRunning ? (
            <Button disabled={isBusy} onClick={() => begin(() => setup.stop())}>
              {trans.__('Stop setup')}
            </Button>
          ) : null}
          <Button {...(isRunning && FIRST)} onClick={onClose}>
            {trans.__('Close')}
          </Button>
          {isRunning || (state === 'done' && onLessons === null) ? null : state === 'done' ? (
            <Button
              kind="primary"
              {...FIRST}
              disabled={isBusy}
              onClick={() => begin(async () => onLessons?.().then(onClose))}
            >
              {trans.__('Open the examples')}
            </Button>
          ) : (
            <Button kind="primary" {...FIRST} disabled={isBusy} onClick={() => begin(() => setup.start())}>
              {state === 'idle' ? trans.__('Set up %1', name) : trans.__('Try again')}
            </Button>
          )}
        </>
      }
    >
      {shownProblem === null ? null : <ErrorCard message={shownProblem} />}
      {state === 'done' ? (
        <p role="status">
          {onLessons === null
            ? trans.__('%1 is ready. The notebook gets its kernel when you close this.', name)
            : trans.__('%1 is ready. Its kernel, "%2", is in the launcher.', name, environment.displayName)}
        </p>
      ) : (
        <p className="jp-TPULabQuiet">
          {trans.__(
            "You can then try the examples and panels on this machine, without a TPU. Nothing outside TPULab's folder changes."
          )}{' '}
          {size}
        </p>
      )}
      {isRunning ? (
        <div className="jp-TPULabOverallBar">
          <Bar fraction={creation?.fraction ?? 0} label={trans.__('Setup')} />
        </div>
      ) : null}
      {creation === null || creation.stages.length === 0 ? null : <Stages creation={creation} />}
    </Frame>
  );
}

function Stages({ creation }: { readonly creation: EnvironmentCreation }): JSX.Element {
  return (
    <ol className="jp-TPULabStages" aria-label={trans.__('Stages')}>
      {creation.stages.map(({ title, state, startedAt, endedAt }) => (
        <li key={title} className={`jp-TPULabStage jp-mod-${state}`}>
          <span className="jp-TPULabStage-mark">
            {state === 'running' ? (
              <span className="jp-TPULabRing" />
            ) : (
              <Icon name={state === 'done' ? 'check' : 'close'} />
            )}
          </span>
          <span className="jp-TPULabStage-title jp-TPULabState-word">{title}</span>
          <span className="jp-TPULabStage-detail">
            {endedAt === null ? secondsText(Date.now() - startedAt) : durationText(endedAt - startedAt)}
          </span>
          {state === 'running' ? (
            <StageNow
              detail={creation.detail ?? ''}
              amount={creation.transfer === null ? '' : transferText(creation.transfer)}
            />
          ) : null}
        </li>
      ))}
    </ol>
  );
}
