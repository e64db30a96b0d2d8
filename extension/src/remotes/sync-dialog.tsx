/** The dialog "Copy Folder…": choice, preview, and progress. Closing it stops nothing. */
import { type FormEvent, type JSX, useEffect, useState } from 'react';
import { ReactWidget } from '@jupyterlab/ui-components';
import {
  sizeText,
  type SyncDirection,
  type SyncPlan,
  type SyncRequest,
  type SyncStatus
} from '@tpulab/protocol';
import { pageStorage } from '../platform/page-storage.js';
import { ErrorCard } from './dialog/error-card.js';
import { FIRST, Frame, TITLE_ID } from './dialog/frame.js';
import { FormDialog } from './form-dialog.js';
import type { Remotes } from '../backends/remotes-model.js';
import { folderUnder, SyncFolders } from '../backends/sync-folders.js';
import { Button } from '../ui/button.js';
import { trans } from '../text/trans.js';

interface ISyncOptions {
  readonly remotes: Remotes;
  readonly name: string | null;
  /** Folder of the file browser, as Lab names it. */
  readonly folder: string;
}

const START_MS = 30_000;
const POLL_MS = 500;

export async function showSyncDialog(options: ISyncOptions): Promise<void> {
  const { remotes } = options;
  const connected = remotes.all.filter(({ state }) => state === 'connected').map(({ name }) => name);
  const name = options.name ?? connected[0];
  if (name === undefined) {
    return; // the command is not enabled then
  }
  const body = ReactWidget.create(
    <SyncBody {...options} name={name} names={connected} onClose={() => dialog.reject()} />
  );
  const dialog = new FormDialog(body, TITLE_ID);
  await dialog.launch();
}

interface IBodyProps extends ISyncOptions {
  readonly name: string;
  readonly names: readonly string[];
  readonly onClose: () => void;
}

const FORM_ID = 'jp-TPULabSync-form';

function SyncBody(props: IBodyProps): JSX.Element {
  const { remotes, names, name: initial, folder: initialFolder, onClose } = props;
  const [name, setName] = useState(initial);
  const memory = new SyncFolders(pageStorage());
  const known = memory.get(initial);
  // A requested folder is used, wherever the last one was copied.
  const isKnown = known !== null && (initialFolder === '' || initialFolder === known.folder);
  const [folder, setFolder] = useState(isKnown ? known.folder : initialFolder);
  const [remoteFolder, setRemoteFolder] = useState(isKnown ? known.remoteFolder : '');
  const [direction, setDirection] = useState<SyncDirection>('to-remote');
  const [include, setInclude] = useState('');
  const [exclude, setExclude] = useState('');
  const [isDeleting, setDeleting] = useState(false);
  const [plan, setPlan] = useState<SyncPlan | null>(null);
  const [status, setStatus] = useState<SyncStatus | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const route = `bridge/v1/machines/${encodeURIComponent(name)}/sync`;
  const isRunning = status?.state === 'running';
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => {
      // A failure here is shown by the state of the bridge; the next poll may succeed.
      remotes.api.request<SyncStatus>('GET', route).then(setStatus, () => undefined);
    }, POLL_MS);
    return () => clearInterval(timer);
  }, [isRunning, remotes, route]);
  const request: SyncRequest = {
    localFolder: folderUnder(folder),
    ...(remoteFolder.trim() !== '' && { remoteFolder: remoteFolder.trim() }),
    direction,
    include: lines(include),
    exclude: lines(exclude),
    delete: isDeleting
  };
  const answered = async <T,>(answer: Promise<T>): Promise<T | null> => {
    setBusy(true);
    setProblem(null);
    try {
      return await answer;
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
    setPlan(await answered(remotes.api.planSync(name, request)));
  };
  const start = async (): Promise<void> => {
    const begun = await answered(remotes.api.request<SyncStatus>('POST', route, request, START_MS));
    if (begun !== null) {
      memory.set(name, { folder, remoteFolder: begun.remoteFolder });
      setPlan(null);
      setStatus(begun);
    }
  };
  const edited = <T,>(set: (value: T) => void): ((value: T) => void) => {
    // The preview is outdated now.
    return value => {
      setPlan(null);
      set(value);
    };
  };
  const buttons = (
    <>
      <Button onClick={onClose}>{trans.__('Close')}</Button>
      {isRunning ? (
        <Button
          onClick={() =>
            void remotes.api.request<SyncStatus>('DELETE', route).then(setStatus, () => undefined)
          }
        >
          {trans.__('Cancel the sync')}
        </Button>
      ) : plan === null ? (
        <button type="submit" form={FORM_ID} className="jp-TPULabButton jp-mod-primary" disabled={isBusy}>
          {isBusy ? trans.__('Comparing…') : trans.__('Preview')}
        </button>
      ) : (
        <button
          type="button"
          className={`jp-TPULabButton ${plan.deletions + plan.newer > 0 ? 'jp-mod-danger' : 'jp-mod-primary'}`}
          disabled={isBusy || plan.files + plan.deletions === 0}
          onClick={() => void start()}
        >
          {trans.__('Copy now')}
        </button>
      )}
    </>
  );
  return (
    <Frame
      screen="sync"
      title={trans.__('Copy a folder to or from a machine')}
      onClose={onClose}
      buttons={buttons}
    >
      <form id={FORM_ID} className="jp-TPULabSync" onSubmit={event => void preview(event)}>
        {problem === null ? null : <ErrorCard message={problem} />}
        <label className="jp-TPULabField">
          {trans.__('Remote')}
          <select value={name} onChange={event => edited(setName)(event.target.value)}>
            {names.map(each => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <Field
          label={trans.__('Folder here')}
          isFirst
          value={folder}
          onChange={edited(setFolder)}
          hint={trans.__('all files')}
        />
        <Field
          label={trans.__('Folder there')}
          value={remoteFolder}
          onChange={edited(setRemoteFolder)}
          hint={
            remotes.all.find(remote => remote.name === name)?.source.kind === 'colab'
              ? trans.__('same name, in /content')
              : trans.__('same name, in the home folder')
          }
        />
        <label className="jp-TPULabField">
          {trans.__('Direction')}
          <select
            value={direction}
            onChange={event => edited(setDirection)(event.target.value as SyncDirection)}
          >
            <option value="to-remote">{trans.__('to the VM')}</option>
            <option value="from-remote">{trans.__('from the VM')}</option>
          </select>
        </label>
        <Patterns label={trans.__('Exclude')} value={exclude} onChange={edited(setExclude)} />
        <Patterns label={trans.__('Include anyway')} value={include} onChange={edited(setInclude)} />
        <label className="jp-TPULabField jp-mod-check">
          <input
            type="checkbox"
            checked={isDeleting}
            onChange={event => edited(setDeleting)(event.target.checked)}
          />
          {trans.__('Also delete what the other side does not have')}
        </label>
        {plan === null ? null : <PlanView plan={plan} name={name} />}
        {status === null ? null : <StatusView status={status} />}
      </form>
    </Frame>
  );
}

function Field(props: {
  label: string;
  value: string;
  hint: string;
  isFirst?: boolean;
  onChange: (value: string) => void;
}): JSX.Element {
  const { label, value, hint, isFirst = false, onChange } = props;
  return (
    <label className="jp-TPULabField">
      {label}
      <input
        {...(isFirst && FIRST)}
        value={value}
        placeholder={hint}
        spellCheck={false}
        onChange={event => onChange(event.target.value)}
      />
    </label>
  );
}

function Patterns(props: { label: string; value: string; onChange: (value: string) => void }): JSX.Element {
  const { label, value, onChange } = props;
  return (
    <label className="jp-TPULabField">
      {label}
      <textarea
        rows={2}
        value={value}
        placeholder={trans.__('one pattern a line, such as *.ckpt or data/')}
        spellCheck={false}
        onChange={event => onChange(event.target.value)}
      />
    </label>
  );
}

export function PlanView(props: { readonly plan: SyncPlan; readonly name: string }): JSX.Element {
  const { plan, name } = props;
  const { changes, files, newer, deletions, bytes, localFolder, remoteFolder } = plan;
  const names = { send: trans.__('to'), receive: trans.__('from'), delete: trans.__('delete') };
  const hidden = files + deletions - changes.length;
  return (
    <section aria-label={trans.__('Preview')}>
      <p role="status">
        {files + deletions === 0
          ? trans.__('Both folders are identical.')
          : trans.__(
              '%1, %2; %3. Nothing has been done yet.',
              trans._n('%1 file', '%1 files', files),
              sizeText(bytes),
              trans._n('%1 deletion', '%1 deletions', deletions)
            )}
      </p>
      {newer === 0 ? null : (
        <p className="jp-TPULabSync-newer">
          {trans._n(
            '%1 file that would be overwritten is newer than its copy.',
            '%1 files that would be overwritten are newer than their copies.',
            newer
          )}
        </p>
      )}
      <p className="jp-TPULab-quiet">{trans.__('%1 here, %2 on %3', localFolder, remoteFolder, name)}</p>
      {changes.length === 0 ? null : (
        <ul className="jp-TPULabSync-changes" tabIndex={0} aria-label={trans.__('Files')}>
          {changes.map(({ path, action, bytes: size, newer: isNewer }) => (
            <li
              key={`${action} ${path}`}
              className={`jp-mod-${action} ${isNewer === true ? 'jp-mod-newer' : ''}`}
            >
              <span className="jp-TPULab-quiet">{names[action]}</span> {path}{' '}
              <span className="jp-TPULab-quiet jp-TPULab-number">
                {action === 'delete' ? '' : sizeText(size)}
                {isNewer === true ? ` · ${trans.__('overwrites a newer file')}` : ''}
              </span>
            </li>
          ))}
          {hidden > 0 ? <li className="jp-TPULab-quiet">{trans.__('and %1 more', hidden)}</li> : null}
        </ul>
      )}
      <LeftOutView {...plan} />
    </section>
  );
}

function LeftOutView(props: Pick<SyncPlan, 'leftOut' | 'leftOutCount'> & {}): JSX.Element | null {
  const { leftOut, leftOutCount } = props;
  return leftOutCount === 0 ? null : (
    <details>
      <summary>{trans._n('%1 is not copied', '%1 are not copied', leftOutCount)}</summary>
      <ul className="jp-TPULabSync-changes" tabIndex={0} aria-label={trans.__('Not copied')}>
        {leftOut.map(({ path, reason }) => (
          <li key={path}>
            {path} <span className="jp-TPULab-quiet">{reason}</span>
          </li>
        ))}
        {leftOutCount > leftOut.length ? (
          <li className="jp-TPULab-quiet">{trans.__('and %1 more', leftOutCount - leftOut.length)}</li>
        ) : null}
      </ul>
    </details>
  );
}

function StatusView({ status }: { status: SyncStatus }): JSX.Element {
  const { state, files, totalFiles, bytes, totalBytes, error } = status;
  if (error !== null) return <ErrorCard message={error.message} />;
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
    <>
      <p role="status">
        {words[state]}{' '}
        {state === 'running' ? (
          <progress
            value={totalBytes > 0 ? Math.min(1, bytes / totalBytes) : undefined}
            aria-label={trans.__('Copied')}
          />
        ) : null}
      </p>
      <LeftOutView {...status} />
    </>
  );
}

function lines(text: string): string[] {
  return text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '');
}
