/** The dialog "Sync Folder to VM…": what to copy, what would happen, and how it goes. Closing it stops nothing. */
import { type FormEvent, type JSX, useEffect, useState } from 'react';
import { PageConfig } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { SyncDirection, SyncPlan, SyncRequest, SyncStatus } from '@tpulab/protocol';
import { pageStorage } from '../backends/page-storage.js';
import { sizeText } from '../text/size.js';
import { FormDialog } from './form-dialog.js';
import type { Remotes } from './model.js';
import { ErrorView } from './progress-view.js';
import { SyncFolders } from './sync-folders.js';

export interface ISyncOptions {
  readonly remotes: Remotes;
  readonly trans: TranslationBundle;
  readonly name: string | null;
  /** Folder of the file browser, as Lab names it. */
  readonly folder: string;
}

/** Comparing a large folder takes long. */
const PLAN_MS = 6 * 60_000;
const LOOK_MS = 500;

export async function showSyncDialog(options: ISyncOptions): Promise<void> {
  const { remotes, trans } = options;
  const connected = remotes.all.filter(({ state }) => state === 'connected').map(({ name }) => name);
  const name = options.name ?? connected[0];
  if (name === undefined) {
    return; // the command is not enabled then
  }
  const body = ReactWidget.create(<SyncBody {...options} name={name} names={connected} />);
  await new FormDialog(trans.__('Sync a folder to a VM'), body, trans.__('Close')).launch();
}

interface IBodyProps extends ISyncOptions {
  readonly name: string;
  readonly names: readonly string[];
}

function SyncBody({ remotes, trans, names, name: initial, folder: initialFolder }: IBodyProps): JSX.Element {
  const [name, setName] = useState(initial);
  const memory = new SyncFolders(pageStorage());
  const known = memory.get(initial);
  const [folder, setFolder] = useState(known?.folder ?? initialFolder);
  const [remoteFolder, setRemoteFolder] = useState(known?.remoteFolder ?? '');
  const [direction, setDirection] = useState<SyncDirection>('to-remote');
  const [include, setInclude] = useState('');
  const [exclude, setExclude] = useState('');
  const [isDeleting, setDeleting] = useState(false);
  const [plan, setPlan] = useState<SyncPlan | null>(null);
  const [status, setStatus] = useState<SyncStatus | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const route = `bridge/v1/remotes/${encodeURIComponent(name)}/sync`;
  const isRunning = status?.state === 'running';
  useEffect(() => {
    if (!isRunning) {
      return;
    }
    const timer = setInterval(() => {
      // A failure here is shown by the state of the bridge; the next look may succeed.
      remotes.api.ask<SyncStatus>('GET', route).then(setStatus, () => undefined);
    }, LOOK_MS);
    return () => clearInterval(timer);
  }, [isRunning, remotes, route]);
  const request: SyncRequest = {
    localFolder: `${PageConfig.getOption('serverRoot').replace(/\/+$/, '')}/${folder}`.replace(/\/$/, ''),
    ...(remoteFolder.trim() !== '' && { remoteFolder: remoteFolder.trim() }),
    direction,
    include: lines(include),
    exclude: lines(exclude),
    delete: isDeleting && direction !== 'both'
  };
  const ask = async <T,>(body: SyncRequest, timeoutMs: number): Promise<T | null> => {
    setBusy(true);
    setProblem(null);
    try {
      return await remotes.api.ask<T>('POST', route, body, timeoutMs);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      return null;
    } finally {
      setBusy(false);
    }
  };
  const preview = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setStatus(null);
    setPlan(await ask<SyncPlan>({ ...request, dryRun: true }, PLAN_MS));
  };
  const start = async (): Promise<void> => {
    const begun = await ask<SyncStatus>(request, 30_000);
    if (begun !== null) {
      memory.set(name, { folder, remoteFolder: begun.remoteFolder });
      setPlan(null);
      setStatus(begun);
    }
  };
  const edited = <T,>(set: (value: T) => void): ((value: T) => void) => {
    // What was previewed is no longer what would happen.
    return value => {
      setPlan(null);
      set(value);
    };
  };
  return (
    <form className="jp-TPULabSync" onSubmit={event => void preview(event)}>
      {problem === null ? null : <ErrorView message={problem} command={null} trans={trans} />}
      <label>
        {trans.__('Remote')}
        <select
          className="jp-mod-styled"
          value={name}
          onChange={event => edited(setName)(event.target.value)}
        >
          {names.map(each => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <Field
        label={trans.__('Folder here')}
        value={folder}
        onChange={edited(setFolder)}
        hint={trans.__('all files')}
      />
      <Field
        label={trans.__('Folder there')}
        value={remoteFolder}
        onChange={edited(setRemoteFolder)}
        hint={trans.__('same name, in the home folder')}
      />
      <label>
        {trans.__('Direction')}
        <select
          className="jp-mod-styled"
          value={direction}
          onChange={event => edited(setDirection)(event.target.value as SyncDirection)}
        >
          <option value="to-remote">{trans.__('to the VM')}</option>
          <option value="from-remote">{trans.__('from the VM')}</option>
          <option value="both">{trans.__('both ways: what is newer wins')}</option>
        </select>
      </label>
      <Patterns label={trans.__('Leave out')} value={exclude} onChange={edited(setExclude)} trans={trans} />
      <Patterns label={trans.__('But take')} value={include} onChange={edited(setInclude)} trans={trans} />
      <label className="jp-TPULabSync-check">
        <input
          type="checkbox"
          checked={isDeleting && direction !== 'both'}
          disabled={direction === 'both'}
          onChange={event => edited(setDeleting)(event.target.checked)}
        />
        {trans.__('Also delete what the other side does not have')}
      </label>
      {plan === null ? null : <PlanView plan={plan} name={name} trans={trans} />}
      {status === null ? null : <StatusView status={status} trans={trans} />}
      <div className="jp-TPULabRemote-buttons">
        {isRunning ? (
          <button
            type="button"
            className="jp-mod-styled"
            onClick={() => void remotes.api.ask<SyncStatus>('DELETE', route).then(setStatus, () => undefined)}
          >
            {trans.__('Cancel the sync')}
          </button>
        ) : plan === null ? (
          <button type="submit" className="jp-mod-styled jp-mod-accept" disabled={isBusy}>
            {isBusy ? trans.__('Comparing…') : trans.__('See what would happen')}
          </button>
        ) : (
          <button
            type="button"
            className={`jp-mod-styled ${plan.deletions > 0 ? 'jp-mod-warn' : 'jp-mod-accept'}`}
            disabled={isBusy || plan.files + plan.deletions === 0}
            onClick={() => void start()}
          >
            {trans.__('Sync now')}
          </button>
        )}
      </div>
    </form>
  );
}

function Field(props: {
  label: string;
  value: string;
  hint: string;
  onChange: (value: string) => void;
}): JSX.Element {
  const { label, value, hint, onChange } = props;
  return (
    <label>
      {label}
      <input
        className="jp-mod-styled"
        value={value}
        placeholder={hint}
        spellCheck={false}
        onChange={event => onChange(event.target.value)}
      />
    </label>
  );
}

function Patterns(props: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  trans: TranslationBundle;
}): JSX.Element {
  const { label, value, onChange, trans } = props;
  return (
    <label>
      {label}
      <textarea
        className="jp-mod-styled"
        rows={2}
        value={value}
        placeholder={trans.__('one pattern a line, such as *.ckpt or data/')}
        spellCheck={false}
        onChange={event => onChange(event.target.value)}
      />
    </label>
  );
}

function PlanView(props: {
  readonly plan: SyncPlan;
  readonly name: string;
  readonly trans: TranslationBundle;
}): JSX.Element {
  const { plan, name, trans } = props;
  const { changes, files, deletions, bytes, localFolder, remoteFolder } = plan;
  const names = { send: trans.__('to'), receive: trans.__('from'), delete: trans.__('delete') };
  const hidden = files + deletions - changes.length;
  return (
    <section aria-label={trans.__('What would happen')}>
      <p role="status">
        {files + deletions === 0
          ? trans.__('Both folders are the same already.')
          : trans.__(
              '%1, %2; %3. Nothing has been done yet.',
              trans._n('%1 file', '%1 files', files),
              sizeText(bytes),
              trans._n('%1 deletion', '%1 deletions', deletions)
            )}
      </p>
      <p className="jp-TPULab-quiet">{trans.__('%1 here, %2 on %3', localFolder, remoteFolder, name)}</p>
      {changes.length === 0 ? null : (
        <ul className="jp-TPULabSync-changes" tabIndex={0} aria-label={trans.__('Files')}>
          {changes.map(({ path, action, bytes: size }) => (
            <li key={`${action} ${path}`} className={`jp-mod-${action}`}>
              <span className="jp-TPULab-quiet">{names[action]}</span> {path}{' '}
              <span className="jp-TPULab-quiet jp-TPULab-number">
                {action === 'delete' ? '' : sizeText(size)}
              </span>
            </li>
          ))}
          {hidden > 0 ? <li className="jp-TPULab-quiet">{trans.__('and %1 more', hidden)}</li> : null}
        </ul>
      )}
    </section>
  );
}

function StatusView({ status, trans }: { status: SyncStatus; trans: TranslationBundle }): JSX.Element {
  const { state, files, totalFiles, bytes, totalBytes, error } = status;
  if (error !== null) {
    return <ErrorView message={error.message} command={null} trans={trans} />;
  }
  const words = {
    idle: '',
    failed: '',
    running: trans.__('Copying: %1 of %2 files', files, totalFiles),
    done: trans.__(
      'Done: %1, %2. Kernels of this folder start in it from now on.',
      trans._n('%1 file', '%1 files', files),
      sizeText(bytes)
    ),
    cancelled: trans._n(
      'Cancelled after %1 file; what was copied stays.',
      'Cancelled after %1 files; what was copied stays.',
      files
    )
  };
  return (
    <p role="status">
      {words[state]}{' '}
      {state === 'running' ? (
        <progress
          value={totalBytes > 0 ? Math.min(1, bytes / totalBytes) : undefined}
          aria-label={trans.__('Copied')}
        />
      ) : null}
    </p>
  );
}

function lines(text: string): string[] {
  return text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '');
}
