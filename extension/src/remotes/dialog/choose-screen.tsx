/** The first screen: the user chooses or types a target, and connects to it. */
import { type JSX, useState } from 'react';
import { checkRoute, type NotebookCheck } from '@tpulab/protocol';
import { momentText } from '../../text/moment.js';
import { useChanges } from '../../ui/use-changes.js';
import { type RemoteActions, changesFor } from '../actions.js';
import { CLOUD_FORM, CLOUD_FORM_IN_FULL, isCloud, refusalOf } from '../target.js';
import { choiceAt, choicesFor, type IChoice, isIncompleteMachine, choiceAfter } from './choices.js';
import { Lists, SearchField } from './choose-view.js';
import { ErrorCard } from './error-card.js';
import { Frame } from './frame.js';
import { Icon } from './icons.js';
import { type IOptions, OptionsView, optionsText, DEFAULT_OPTIONS } from './options-view.js';
import type { IConnectPage } from './remote-props.js';
import { useAnswer } from './use-answer.js';
import { Button } from '../../ui/button.js';
import { trans } from '../../text/trans.js';

interface IChooseProps {
  readonly actions: RemoteActions;
  readonly page: IConnectPage;
  /** The user has chosen; receives the name of the remote that is being connected. */
  readonly onChosen: (name: string) => void;
  readonly onClose: () => void;
}

export function ChooseScreen({ actions, page, onChosen, onClose }: IChooseProps): JSX.Element {
  const { remotes } = actions;
  useChanges(remotes, false);
  useChanges(actions, false, 0);
  const [project, setProject] = useState<string | null>(null);
  const [requested, setRequested] = useState(0);
  const found = useAnswer(() => remotes.api.candidates(project), `${requested} ${project ?? ''}`);
  const environments = useAnswer(() => remotes.api.environments(), '');
  const check = useAnswer(() => lastCheck(actions, page), '').value;
  const [text, setText] = useState('');
  const [key, setKey] = useState<string | null>(null);
  const [options, setOptions] = useState<IOptions>(DEFAULT_OPTIONS);
  const [isOpen, setOpen] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const candidates = found.value;
  const groups = choicesFor(
    { remotes: remotes.all, candidates, project, report: check?.report ?? null },
    text,
    Date.now()
  );
  const active = choiceAt(groups, key);
  const known = active?.target.kind === 'remote' ? remotes.get(active.target.name) : null;
  const connect = async ({ target }: IChoice): Promise<void> => {
    if (isBusy) return;
    setBusy(true);
    const name = await begin(actions, target, options);
    setBusy(false);
    if (name !== null) onChosen(name);
  };
  const hasCloud =
    isCloud(text) ||
    candidates?.gcloud.state === 'ok' ||
    remotes.all.some(({ source }) => source.kind === 'gcloud');
  const summary = optionsText(options);
  const refusal = refusalOf(text);
  return (
    <Frame
      screen="choose"
      title={trans.__('Connect to a TPU')}
      isFlush
      onClose={onClose}
      head={
        <SearchField
          {...{ text, groups, active }}
          onText={next => {
            setText(next);
            setKey(null);
          }}
          onMove={step => setKey(choiceAfter(groups, active?.key ?? null, step))}
          onEnter={() => active && void connect(active)}
        />
      }
      drawer={
        isOpen ? (
          <OptionsView
            {...{ options, project }}
            onOptions={setOptions}
            environments={environments.value ?? []}
            isCloud={hasCloud}
            ownProject={project === null ? (candidates?.gcloud.project ?? null) : null}
            onProject={setProject}
            installs={known?.install ?? true}
          />
        ) : null
      }
      aside={
        <Button kind="bare" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <Icon name={isOpen ? 'down' : 'right'} />
          {trans.__('Options')}
          {isOpen || summary === '' ? null : <span className="jp-TPULabQuiet jp-TPULabWide">{summary}</span>}
        </Button>
      }
      buttons={
        <>
          <Button className="jp-TPULabWide" onClick={onClose}>
            {trans.__('Cancel')}
          </Button>
          <PrimaryButton
            active={active}
            isBusy={isBusy}
            onClick={() => active && void connect(active)}
            {...{ actions }}
          />
        </>
      }
    >
      {actions.problem === null ? null : <ErrorCard message={actions.problem} />}
      {isIncompleteMachine(text) ? (
        <p className="jp-TPULabHint" role="status">
          {trans.__('Type a Google Cloud machine as %1 or %2.', CLOUD_FORM, CLOUD_FORM_IN_FULL)}
        </p>
      ) : refusal !== null && active === null ? (
        <p className="jp-TPULabHint" role="status">
          {refusal}
        </p>
      ) : null}
      {check === null ? null : (
        <p className="jp-TPULabHint">
          {trans.__('Fits: the notebook as it was checked, %1.', momentText(check.checkedAt, Date.now()))}{' '}
          {check.isCurrent ? '' : trans.__('Its code has changed since.')}
        </p>
      )}
      <Lists
        {...{ text, groups, active, candidates }}
        problem={found.problem}
        isLoading={found.isAsking}
        onActive={choice => setKey(choice.key)}
        onChoose={choice => void connect(choice)}
        onRefresh={() => setRequested(requested + 1)}
        onProject={() => setOpen(true)}
      />
    </Frame>
  );
}

interface IPrimaryProps {
  readonly active: IChoice | null;
  readonly isBusy: boolean;
  readonly actions: RemoteActions;
  readonly onClick: () => void;
}

/** The button names its target if there is room. */
function PrimaryButton({ active, isBusy, actions, onClick }: IPrimaryProps): JSX.Element {
  const isThere =
    active?.target.kind === 'remote' && actions.remotes.get(active.target.name)?.state === 'connected';
  const short = isThere ? trans.__('Show') : trans.__('Connect');
  const long =
    active === null
      ? short
      : isThere
        ? trans.__('Show %1', active.name)
        : trans.__('Connect to %1', active.name);
  return (
    <Button kind="primary" disabled={active === null || isBusy} onClick={onClick}>
      <span className="jp-TPULabWide">{long}</span>
      <span className="jp-TPULabNarrow">{short}</span>
    </Button>
  );
}

/** The last check of the open notebook; null before the first one. */
async function lastCheck({ remotes }: RemoteActions, page: IConnectPage): Promise<NotebookCheck['last']> {
  const notebook = (await page.notebook())?.replace(/^RTC:/, '') ?? '';
  // The files of other drives are elsewhere.
  return notebook === '' || notebook.includes(':')
    ? null
    : (await remotes.api.request<NotebookCheck>('GET', checkRoute(notebook))).last;
}

/** The name of the remote that is being connected; null after a refusal. */
async function begin(
  actions: RemoteActions,
  target: IChoice['target'],
  { environment, reach, install }: IOptions
): Promise<string | null> {
  const choice = {
    environment: environment === '' ? null : environment,
    reach: reach === '' ? null : reach,
    install
  };
  if (target.kind === 'source') return actions.connectTo(target.source, choice);
  const remote = actions.remotes.get(target.name);
  if (remote === null) return null;
  const changes = changesFor(remote, choice);
  const isUnchanged = Object.keys(changes).length === 0;
  const isReady = remote.state === 'connected' && isUnchanged;
  return isReady || (await actions.connect(remote.name, isUnchanged ? undefined : changes))
    ? remote.name
    : null;
}
