/** What one may connect to: remotes that are known, ssh hosts, the project's TPU VMs, or what somebody types. */
import { type FormEvent, type JSX, useEffect, useId, useState } from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CloudReach, EnvironmentInfo, Remote, RemoteCandidates, RemoteSource } from '@tpulab/protocol';
import { useChanges } from '../panel/use-changes.js';
import { type IConnectChoice, type RemoteActions, wishesFor } from './actions.js';
import { sourceName } from './names.js';
import { ErrorView } from './progress-view.js';
import { figuresText, stateText } from './state-text.js';
import { CLOUD_FORM, CLOUD_FORM_IN_FULL, isCloud, sourceOf } from './target.js';

export interface IChooseProps {
  readonly actions: RemoteActions;
  readonly trans: TranslationBundle;
  /** Somebody has chosen; the name of the remote that is being connected. */
  readonly onChosen: (name: string) => void;
}

export function ChooseView({ actions, trans, onChosen }: IChooseProps): JSX.Element {
  useChanges(actions.remotes, false);
  useChanges(actions, false, 0);
  /** Of Google Cloud; null for gcloud's own. */
  const [project, setProject] = useState<string | null>(null);
  const candidates = useAnswer(() => actions.remotes.api.candidates(project), project);
  const environments = useAnswer(() => actions.remotes.api.environments(), null);
  const [environment, setEnvironment] = useState('');
  const [reach, setReach] = useState<CloudReach | ''>('');
  const [text, setText] = useState('');
  const [isBusy, setBusy] = useState(false);
  const choice = { environment: environment === '' ? null : environment, reach: reach === '' ? null : reach };
  const connect = async (source: RemoteSource): Promise<void> => {
    setBusy(true);
    const name = await actions.connectTo(source, choice);
    setBusy(false);
    if (name !== null) {
      onChosen(name);
    }
  };
  const typed = inProject(sourceOf(text), project);
  const hasCloud =
    isCloud(text) ||
    candidates.value?.gcloud.state === 'ok' ||
    actions.remotes.all.some(({ source }) => source.kind === 'gcloud');
  const onSubmit = (event: FormEvent): void => {
    event.preventDefault();
    if (typed) {
      void connect(typed);
    }
  };
  return (
    <div className="jp-TPULabRemote-choose">
      {actions.problem === null ? null : <ErrorView message={actions.problem} command={null} trans={trans} />}
      <form onSubmit={onSubmit} className="jp-TPULabRemote-typed">
        <label>
          {trans.__('Host')}
          <input
            className="jp-mod-styled"
            placeholder={trans.__('user@host, or a host of your ssh config')}
            value={text}
            autoFocus
            spellCheck={false}
            aria-invalid={text.trim() !== '' && typed === null}
            onChange={event => setText(event.target.value)}
          />
        </label>
        <EnvironmentChoice
          environments={environments.value ?? []}
          value={environment}
          onChange={setEnvironment}
          trans={trans}
        />
        {hasCloud ? <ReachChoice value={reach} onChange={setReach} trans={trans} /> : null}
        <button type="submit" className="jp-mod-styled jp-mod-accept" disabled={typed === null || isBusy}>
          {trans.__('Connect')}
        </button>
      </form>
      {typed === null && isCloud(text) ? (
        <p className="jp-TPULab-quiet" role="status">
          {trans.__('A machine of Google Cloud is written %1, or %2.', CLOUD_FORM, CLOUD_FORM_IN_FULL)}
        </p>
      ) : null}
      <KnownRemotes {...{ actions, trans, onChosen, isBusy, choice }} />
      <Candidates
        candidates={candidates}
        isBusy={isBusy}
        trans={trans}
        onChosen={source => void connect(source)}
        onProject={setProject}
      />
    </div>
  );
}

function EnvironmentChoice(props: {
  environments: readonly EnvironmentInfo[];
  value: string;
  onChange: (value: string) => void;
  trans: TranslationBundle;
}): JSX.Element {
  const { environments, value, onChange, trans } = props;
  return (
    <label>
      {trans.__('Environment')}
      <select className="jp-mod-styled" value={value} onChange={event => onChange(event.target.value)}>
        <option value="">{trans.__('As it is there; JAX at first')}</option>
        {environments.map(({ name, displayName }) => (
          <option key={name} value={name}>
            {displayName}
          </option>
        ))}
      </select>
    </label>
  );
}

function ReachChoice(props: {
  value: CloudReach | '';
  onChange: (value: CloudReach | '') => void;
  trans: TranslationBundle;
}): JSX.Element {
  const { value, onChange, trans } = props;
  return (
    <label>
      {trans.__('Way to Google Cloud')}
      <select
        className="jp-mod-styled"
        value={value}
        onChange={event => onChange(event.target.value as CloudReach | '')}
      >
        <option value="">{trans.__('As before; external at first')}</option>
        <option value="external">{trans.__('Its external address')}</option>
        <option value="iap">{trans.__('Identity-Aware Proxy (IAP)')}</option>
        <option value="internal">{trans.__('Its internal address')}</option>
      </select>
    </label>
  );
}

function KnownRemotes({
  actions,
  trans,
  onChosen,
  isBusy,
  choice
}: IChooseProps & { readonly isBusy: boolean; readonly choice: IConnectChoice }): JSX.Element | null {
  const { all } = actions.remotes;
  if (all.length === 0) {
    return null;
  }
  const choose = async (remote: Remote): Promise<void> => {
    const { name, state } = remote;
    const wishes = wishesFor(remote, choice);
    const isAsWished = Object.keys(wishes).length === 0;
    const isReady = state === 'connected' && isAsWished;
    if (isReady || (await actions.connect(name, isAsWished ? undefined : wishes))) {
      onChosen(name);
    }
  };
  return (
    <section aria-label={trans.__('Your remotes')}>
      <h3>{trans.__('Your remotes')}</h3>
      <ul className="jp-TPULabRemote-list">
        {all.map(remote => (
          <li key={remote.name}>
            <button type="button" disabled={isBusy} onClick={() => void choose(remote)}>
              <span>{remote.name}</span>
              <span className="jp-TPULab-quiet">{sourceName(remote.source)}</span>
              <span className="jp-TPULab-quiet jp-TPULab-number">
                {figuresText(remote, trans)} {stateText(remote, Date.now(), trans).label}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface ICandidatesProps {
  readonly candidates: IAnswer<RemoteCandidates>;
  readonly isBusy: boolean;
  readonly trans: TranslationBundle;
  readonly onChosen: (source: RemoteSource) => void;
  readonly onProject: (project: string | null) => void;
}

function Candidates(props: ICandidatesProps): JSX.Element | null {
  const { candidates, isBusy, trans, onChosen, onProject } = props;
  const { value, problem, isAsking } = candidates;
  const asked =
    problem === null && !isAsking ? null : (
      <p className="jp-TPULab-quiet" role="status">
        {problem ?? trans.__('Asking ssh and gcloud what there is…')}
      </p>
    );
  if (value === null) {
    return asked;
  }
  const { gcloud, sshHosts } = value;
  return (
    <>
      <section aria-label={trans.__('TPU VMs of your project')}>
        <h3>
          {gcloud.project === null
            ? trans.__('TPU VMs of your project')
            : trans.__('TPU VMs of project %1', gcloud.project)}
        </h3>
        {gcloud.state === 'ok' ? null : (
          <p className="jp-TPULab-quiet">
            {gcloud.message} {gcloud.remedy}
          </p>
        )}
        {gcloud.state === 'ok' && gcloud.machines.length === 0 ? (
          <p className="jp-TPULab-quiet">{trans.__('There are none.')}</p>
        ) : null}
        <ul className="jp-TPULabRemote-list">
          {gcloud.machines.map(({ source, acceleratorType, state }) => (
            <li key={`${source.product} ${source.zone} ${source.name}`}>
              <button type="button" disabled={isBusy} onClick={() => onChosen(source)}>
                <span>{source.name}</span>
                <span className="jp-TPULab-quiet">{`${acceleratorType ?? ''} ${source.zone}`}</span>
                <span className="jp-TPULab-quiet">{state}</span>
              </button>
            </li>
          ))}
        </ul>
        {gcloud.state === 'ok' ? (
          <p className="jp-TPULab-quiet">
            {trans.__(
              'Queued resources and managed groups are not listed. Type one as host: %1 or %2.',
              'gcloud:queued-resource/ZONE/NAME',
              'gcloud:instance-group/ZONE/NAME'
            )}
          </p>
        ) : null}
        {asked}
        {gcloud.state === 'missing' ? null : <ProjectChoice onChosen={onProject} trans={trans} />}
      </section>
      {sshHosts.length === 0 ? null : (
        <section aria-label={trans.__('Hosts of your ssh config')}>
          <h3>{trans.__('Hosts of your ssh config')}</h3>
          <ul className="jp-TPULabRemote-list">
            {sshHosts.map(destination => (
              <li key={destination}>
                <button
                  type="button"
                  disabled={isBusy}
                  onClick={() => onChosen({ kind: 'ssh', destination })}
                >
                  <span>{destination}</span>
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

/** Null: what is typed is no name of a project. */
function projectOf(text: string): string | null {
  return /^[\w.:][\w.:-]{0,255}$/.test(text.trim()) ? text.trim() : null;
}

function ProjectChoice(props: {
  onChosen: (project: string | null) => void;
  trans: TranslationBundle;
}): JSX.Element {
  const { onChosen, trans } = props;
  const [text, setText] = useState('');
  const hint = useId();
  const isEmpty = text.trim() === '';
  const project = projectOf(text);
  const onSubmit = (event: FormEvent): void => {
    event.preventDefault();
    if (isEmpty || project !== null) {
      onChosen(project);
    }
  };
  return (
    <form onSubmit={onSubmit} className="jp-TPULabRemote-typed">
      <label>
        {trans.__('Another project')}
        <input
          className="jp-mod-styled"
          value={text}
          spellCheck={false}
          aria-invalid={!isEmpty && project === null}
          aria-describedby={hint}
          onChange={event => setText(event.target.value)}
        />
      </label>
      <button type="submit" className="jp-mod-styled" disabled={!isEmpty && project === null}>
        {trans.__('List')}
      </button>
      <p id={hint} className="jp-TPULab-quiet">
        {trans.__('Machines that you type are taken from the listed project, too.')}
      </p>
    </form>
  );
}

/** A machine of Google Cloud that was typed is one of the project that was named; null: of gcloud's own. */
function inProject(source: RemoteSource | null, project: string | null): RemoteSource | null {
  return source?.kind === 'gcloud' && project !== null ? { ...source, project } : source;
}

interface IAnswer<T> {
  /** The newest that has come; it stays while something else is asked. */
  readonly value: T | null;
  readonly problem: string | null;
  readonly isAsking: boolean;
}

/** Asks once for each `about`. */
function useAnswer<T>(ask: () => Promise<T>, about: string | null): IAnswer<T> {
  const [answer, setAnswer] = useState<IAnswer<T>>({ value: null, problem: null, isAsking: true });
  useEffect(() => {
    let isGone = false;
    const say = (change: Partial<IAnswer<T>>): void => {
      if (!isGone) setAnswer(before => ({ ...before, ...change }));
    };
    say({ problem: null, isAsking: true });
    ask().then(
      value => say({ value, isAsking: false }),
      (error: unknown) =>
        say({ problem: error instanceof Error ? error.message : String(error), isAsking: false })
    );
    return () => {
      isGone = true;
    };
    // `ask` is made anew each time the view is drawn.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [about]);
  return answer;
}
