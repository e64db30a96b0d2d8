/** The last screen of connecting: the machine's equipment, the notebook on it, and the files that it needs. */
import type { JSX } from 'react';
import { durationText, type Holder, type Remote, secondsText, sizeText } from '@tpulab/protocol';
import { acceleratorName } from '../../backends/remote-names.js';
import type { IMachineFacts } from './after-connecting.js';
import { FIRST } from './frame.js';
import { DeleteHint } from './guide.js';
import { Icon } from './icons.js';
import { environmentName } from './stage-rows.js';
import { Button } from '../../ui/button.js';
import { trans } from '../../text/trans.js';

/** The part of a folder that is not on the remote yet. */
export type FolderState =
  | { readonly kind: 'counting' }
  | { readonly kind: 'counted'; readonly files: number; readonly bytes: number }
  | { readonly kind: 'unknown'; readonly why: string };

interface IDoneProps {
  readonly remote: Remote;
  readonly facts: IMachineFacts | null;
  /** The notebook that would be opened; null: a new one. */
  readonly notebook: string | null;
  /** Folder of that notebook, as displayed. */
  readonly folder: string;
  readonly folderState: FolderState;
  readonly isOpening: boolean;
  readonly problem: string | null;
  readonly onOpen: () => void;
  readonly onSync: () => void;
}

export function DoneView(props: IDoneProps): JSX.Element {
  const { remote, facts, notebook, folder, folderState, isOpening, problem, onOpen, onSync } = props;
  const { name, stages } = remote;
  const tookMs = stages.reduce((sum, { durationMs = 0 }) => sum + durationMs, 0);
  const hasInstalled = stages.some(({ name: one, state }) => one === 'environment' && state === 'done');
  return (
    <>
      <div className="jp-TPULabDone" role="status">
        <span className="jp-TPULabDone-ball jp-mod-ok">
          <Icon name="check" />
        </span>
        <div>
          <h3>{trans.__('Connected to %1', name)}</h3>
          <p className="jp-TPULabQuiet">
            {hasInstalled
              ? trans.__('Set up in %1. Next time it only has to connect.', durationText(tookMs))
              : tookMs > 0
                ? trans.__(
                    'In %1. Its kernels are in the launcher and in the kernel picker.',
                    durationText(tookMs)
                  )
                : trans.__('Its kernels are in the launcher and in the kernel picker.')}
          </p>
        </div>
      </div>
      <Facts remote={remote} facts={facts} />
      <section className="jp-TPULabNext">
        <div>
          <h4>
            {notebook === null
              ? trans.__('Start a notebook on %1', name)
              : trans.__('Run %1 on %2', baseName(notebook), name)}
          </h4>
          <p className="jp-TPULabQuiet">
            {trans.__(
              'Starts a %1 kernel on %2. The file stays on this computer.',
              environmentName(remote.environment),
              name
            )}
          </p>
          {problem === null ? null : <p role="alert">{problem}</p>}
        </div>
        <Button kind="primary" {...FIRST} disabled={isOpening} onClick={onOpen}>
          {trans.__('Open notebook on %1', name)}
        </Button>
      </section>
      <section className="jp-TPULabNext">
        <div>
          <h4>{trans.__('Copy the files it needs')}</h4>
          <p className="jp-TPULabQuiet" role="status">
            {trans.__('Kernels on %1 see only files on %1.', name)} {folderText(folder, folderState)}
          </p>
        </div>
        <Button onClick={onSync}>
          <Icon name="copy" />
          {trans.__('Copy this folder…')}
        </Button>
      </section>
      {remote.source.kind === 'gcloud' ? (
        <>
          <p className="jp-TPULabQuiet jp-mod-small">
            {trans.__('The VM is billed until you delete it, even while you are not connected.')}
          </p>
          <DeleteHint source={remote.source} />
        </>
      ) : null}
    </>
  );
}

function Facts({ remote, facts }: Pick<IDoneProps, 'remote' | 'facts'>): JSX.Element {
  const accelerator = acceleratorName(remote);
  const free =
    facts !== null && facts.chips > 0 ? trans._n('%1 chip free', '%1 chips free', facts.chips) : null;
  const known: readonly (readonly [string, string | null])[] = [
    ['TPU', accelerator === null ? null : free === null ? accelerator : `${accelerator}, ${free}`],
    ['HBM', facts?.hbm ?? null],
    [trans.__('Environment'), environmentName(remote.environment)],
    [
      trans.__('Round trip'),
      remote.roundTripMs === null ? null : trans.__('%1 ms', Math.max(1, Math.round(remote.roundTripMs)))
    ]
  ];
  return (
    <dl className="jp-TPULabFacts">
      {known.map(([label, value]) =>
        value === null ? null : (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        )
      )}
    </dl>
  );
}

function folderText(folder: string, state: FolderState): string {
  switch (state.kind) {
    case 'counting':
      return trans.__('Looking at %1…', folder);
    case 'unknown':
      return state.why;
    case 'counted':
      return state.files === 0
        ? trans.__('%1 is already there.', folder)
        : trans.__(
            '%1 has %2 to copy, %3.',
            folder,
            trans._n('%1 file', '%1 files', state.files),
            sizeText(state.bytes)
          );
  }
}

interface IHoldersProps {
  readonly name: string;
  readonly holders: readonly Holder[];
  readonly problem: string | null;
  readonly onShutDown: (pid: number) => void;
  /** The process in the confirmation, if any. */
  readonly requested: number | null;
  readonly onRequest: (pid: number) => void;
}

export function HoldersView(props: IHoldersProps): JSX.Element {
  const { name, holders, problem, onShutDown, requested, onRequest } = props;
  return (
    <>
      <div className="jp-TPULabDone" role="status">
        <span className="jp-TPULabDone-ball jp-mod-warn">
          <Icon name="lock" />
        </span>
        <div>
          <h3>{trans.__('Connected, but the TPU is in use')}</h3>
          <p className="jp-TPULabQuiet">{trans.__('One process at a time can use the chips of %1.', name)}</p>
        </div>
      </div>
      {problem === null ? null : <p role="alert">{problem}</p>}
      <ul className="jp-TPULabHolders" aria-label={trans.__('Who holds the chips')}>
        {holders.map(holder => (
          <li key={holder.pid} className="jp-TPULabChoice">
            <span className="jp-TPULabChoice-icon">
              <Icon name="chip" />
            </span>
            <span className="jp-TPULabChoice-words">
              <span className="jp-TPULabChoice-name">{holderName(holder)}</span>
              <span className="jp-TPULabChoice-about">{holderText(holder)}</span>
            </span>
            {holder.kernel === null ? null : requested === holder.pid ? (
              <Button kind="danger" onClick={() => onShutDown(holder.pid)}>
                {trans.__('Shut down and lose its variables')}
              </Button>
            ) : (
              <Button onClick={() => onRequest(holder.pid)}>{trans.__('Shut down…')}</Button>
            )}
          </li>
        ))}
      </ul>
      <p className="jp-TPULabQuiet jp-mod-small">
        {trans.__('Plain Python works meanwhile. JAX fails to start until the TPU is free.')}
      </p>
    </>
  );
}

function holderName({ kernel, command, pid }: Holder): string {
  const document = kernel?.documents[0];
  return document === undefined ? (command ?? trans.__('process %1', pid)) : baseName(document);
}

function holderText({ kernel, user, pid, kernelId }: Holder): string {
  if (kernel !== null) {
    return kernel.executionState === 'idle'
      ? trans.__('Your kernel, idle for %1', secondsText(kernel.idleS * 1_000))
      : trans.__('Your kernel, %1', kernel.executionState);
  }
  if (kernelId !== null) return trans.__('Kernel of another TPULab, pid %1. Shut it down there.', pid);
  return user === null
    ? trans.__('Unknown user, pid %1. Only its user can stop it.', pid)
    : trans.__('User %1, pid %2. Only %1 can stop it.', user, pid);
}

function baseName(path: string): string {
  return path.split('/').at(-1) ?? path;
}
