/** The holders of the chips, their owners, and the possible actions. */
import { type HoldersPage, secondsText } from '@tpulab/protocol';
import { type JSX, memo } from 'react';
import { fromBackticks, withBackticks } from '../text/marked.js';
import { Marked } from '../ui/marked-view.js';
import { type Holder, rangesText } from './owners.js';
import { trans } from '../text/trans.js';

interface OwnersViewProps {
  readonly holders: readonly Holder[];
  /** Null where unknown. */
  readonly lock: HoldersPage['lock'] | null;
  /** Shows the document of a kernel. */
  readonly onShow: (document: string) => void;
  /** Shuts the kernel down after a confirmation. */
  readonly onRelease: (kernelId: string) => void;
  /** Has the lock file removed, if its owner has ended. */
  readonly onRemoveLock: () => void;
}

export const OwnersView = memo(function OwnersView({
  holders,
  lock,
  onRemoveLock,
  ...rest
}: OwnersViewProps): JSX.Element {
  return (
    <>
      {holders.length === 0 ? null : (
        <ul className="jp-TPULabOwners" aria-label={trans.__('Who holds the chips')}>
          {holders.map(holder => (
            <HolderView key={holder.pid} holder={holder} {...rest} />
          ))}
        </ul>
      )}
      {lock ? <LockView lock={lock} onRemove={onRemoveLock} /> : null}
    </>
  );
});

type HolderViewProps = Pick<OwnersViewProps, 'onShow' | 'onRelease'> & { readonly holder: Holder };

function HolderView({ holder, onShow, onRelease }: HolderViewProps): JSX.Element {
  const { pid, command, kernel, document, chips } = holder;
  const documents = kernel?.documents.join(', ') ?? '';
  const name = document ?? (documents === '' ? command : documents);
  return (
    <li className="jp-TPULabOwners-item">
      <div className="jp-TPULab-row">
        <span>
          <strong>{name ?? trans.__('process %1', pid)}</strong>{' '}
          {chips.length === 0
            ? trans.__('holds the lock of libtpu')
            : trans._n('holds chip %2', 'holds chips %2', chips.length, rangesText(chips))}
        </span>
        <span className="jp-TPULab-number jp-TPULab-quiet">{trans.__('pid %1', pid)}</span>
      </div>
      <p className="jp-TPULab-quiet">{ownerText(holder)}</p>
      {kernel === null ? (
        <p className="jp-TPULab-quiet">
          <Marked pieces={fromBackticks(foreignProcessText(holder))} />
        </p>
      ) : (
        <div className="jp-TPULab-buttons">
          {document === null ? null : (
            <button type="button" className="jp-TPULab-button" onClick={() => onShow(document)}>
              {trans.__('Show notebook')}
            </button>
          )}
          <button type="button" className="jp-TPULab-button" onClick={() => onRelease(kernel.id)}>
            {trans.__('Release the chips…')}
          </button>
        </div>
      )}
    </li>
  );
}

/** For example `user ada · python3 · kernel tpulab-jax · idle for 3 h 5 min`. */
function ownerText({ user, command, kernel }: Holder): string {
  const parts = [
    user === null ? trans.__('unknown user') : trans.__('user %1', user),
    command,
    kernel?.name == null ? null : trans.__('kernel %1', kernel.name),
    kernel && stateText(kernel)
  ];
  return parts.filter(part => part !== null).join(' · ');
}

function stateText({ executionState, idleS }: NonNullable<Holder['kernel']>): string | null {
  switch (executionState) {
    case 'idle':
      return idleS === null ? trans.__('idle') : trans.__('idle for %1', secondsText(idleS * 1_000));
    case 'busy':
      return trans.__('busy');
    default:
      return executionState;
  }
}

function foreignProcessText({ pid, user, foreignKernelId }: Holder): string {
  const kill = withBackticks(`kill ${pid}`);
  if (foreignKernelId !== null) {
    return trans.__(
      'Kernel %1 of another TPULab. Shut it down there, or run %2 on that machine if it is yours.',
      withBackticks(foreignKernelId),
      kill
    );
  }
  return user === null
    ? trans.__('Not a TPULab kernel. Stop it where it was started, or run %1 there if it is yours.', kill)
    : trans.__(
        'Not a TPULab kernel; it belongs to %1. Ask them to stop it, or run %2 there if that is you.',
        user,
        kill
      );
}

interface LockViewProps {
  readonly lock: HoldersPage['lock'];
  readonly onRemove: () => void;
}

/** A lock in use is released with its holder, who is named above. */
function LockView({ lock: { path, state, owner }, onRemove }: LockViewProps): JSX.Element | null {
  if (state === 'left') {
    return (
      <div className="jp-TPULabSay jp-mod-act">
        <p>
          <Marked
            pieces={fromBackticks(
              trans.__(
                'The lock file %1 of %2 is a leftover: no process uses it. Until it is removed, libtpu may report the TPU as in use.',
                withBackticks(path),
                owner ?? trans.__('an unknown user')
              )
            )}
          />
        </p>
        <div className="jp-TPULab-buttons">
          <button type="button" className="jp-TPULab-button" onClick={onRemove}>
            {trans.__('Remove the lock file')}
          </button>
        </div>
      </div>
    );
  }
  return state === 'unknown' ? (
    <p className="jp-TPULab-quiet">
      <Marked
        pieces={fromBackticks(
          trans.__(
            'There is a lock file %1. Its owner cannot be seen from here, so it is not removed.',
            withBackticks(path)
          )
        )}
      />
    </p>
  ) : null;
}
