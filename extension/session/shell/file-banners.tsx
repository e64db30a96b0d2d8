/** The sync state of a document and its file where the user has to decide: for notebooks and for texts. */
import { InputDialog } from '@jupyterlab/apputils';
import { type ComponentType, type JSX, lazy, Suspense, useEffect, useRef } from 'react';
import type { Saving } from '../files/saving.js';
import { addressOf } from '../page/address.js';
import type { Notice, Notices } from '../notebook/notices.js';
import { NoticeBar } from './notice-bar.js';
import { useSignals } from './use-signal.js';
import { messageOf, timeText, trans } from '../text.js';
import { Button } from './plain.js';

/** The user can decide even while the server is unreachable. */
const Versions = lazy<ComponentType<{ saving: Saving }>>(() =>
  import('./versions.js').catch(() => ({ default: () => null }))
);

interface FileBannersProps {
  readonly saving: Saving;
  readonly notices: Notices;
  /** The preserved data, as sentences. */
  readonly unchanged: string;
  readonly onDownload: () => void;
}

export function FileBanners(props: FileBannersProps): JSX.Element | null {
  const { saving } = props;
  useSignals(saving.changed);
  if (saving.state.kind === 'conflict') return <ConflictCard {...props} />;
  const notice = noticeOf(props);
  return notice === null ? null : <NoticeBar notice={notice} onClose={null} />;
}

/** Asks the user to resolve a conflict; writes nothing before the choice. */
function ConflictCard(props: FileBannersProps): JSX.Element {
  const { saving, notices } = props;
  const first = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    // The focus stays in an editor, where the next key would otherwise choose.
    if (document.activeElement?.closest('.cm-editor') == null) first.current?.focus();
  }, []);
  const name = saving.path.split('/').at(-1) ?? '';
  const act = actions(props);
  const keepBoth = async (): Promise<void> => {
    const path = await saving.keepBoth();
    showCopy(notices, trans.__('This page now shows the file. Your version is %1.', path), path);
  };
  return (
    <section className="tpl-Conflict" aria-label={trans.__('Two versions of %1', name)}>
      <div role="alert">
        <h2>{trans.__('%1 changed on disk while you were editing', name)}</h2>
        <p>{trans.__('Nothing is overwritten until you choose.')}</p>
      </div>
      <Suspense>
        <Versions saving={saving} />
      </Suspense>
      <div className="tpl-Conflict-actions">
        <button ref={first} type="button" className="tpl-Button jp-mod-primary" onClick={act(keepBoth)}>
          {trans.__('Keep both')}
        </button>
        <Button onClick={act(() => saving.overwrite())}>{trans.__('Keep mine')}</Button>
        <Button onClick={act(() => saving.loadTheirs())}>{trans.__('Take theirs')}</Button>
      </div>
      <small>
        {trans.__('Keep both saves yours as %1.', saving.named('-mine').split('/').at(-1) ?? '')}{' '}
        {saving.hasTrash ? trans.__('The version that you discard goes to the trash.') : ''}
      </small>
    </section>
  );
}

/** Runs the user's choice; after a failure the notice stays and shows the reason. */
export function actions({
  notices,
  onDownload
}: Pick<FileBannersProps, 'notices' | 'onDownload'>): (work: () => Promise<unknown>) => () => void {
  const download = { label: trans.__('Download'), onClick: onDownload };
  return work => () =>
    void work().catch((error: unknown) =>
      notices.show({ id: 'failed', tone: 'error', text: messageOf(error), actions: [download] })
    );
}

function noticeOf(props: FileBannersProps): Notice | null {
  const { saving, unchanged, onDownload } = props;
  const { state } = saving;
  const name = saving.path.split('/').at(-1) ?? '';
  const act = actions(props);
  const elsewhere = { label: trans.__('Save elsewhere…'), onClick: act(() => saveCopyAs(props)) };
  const download = { label: trans.__('Download'), onClick: onDownload };
  const file = (text: string, ...others: Notice['actions']): Notice => ({
    ...{ id: 'file', tone: 'error', text, actions: [...others, download] }
  });
  switch (state.kind) {
    case 'deleted':
      return file(
        `${trans.__('%1 was deleted or moved at %2.', name, timeText(state.at))} ${unchanged}`,
        { label: trans.__('Save again'), primary: true, onClick: act(() => saving.overwrite()) },
        elsewhere
      );
    case 'failed':
      return file(
        `${trans.__('%1 is not saved. %2', name, state.why)} ${unchanged}`,
        { label: trans.__('Save now'), onClick: () => void saving.save() },
        { ...elsewhere, primary: true }
      );
    default:
      return null;
  }
}

function showCopy(notices: Notices, text: string, path: string): void {
  const open = { label: trans.__('Open it'), onClick: () => void window.open(addressOf(window, path)) };
  notices.show({ id: 'copy', tone: 'success', text, actions: [open] });
}

async function saveCopyAs({ saving, notices }: FileBannersProps): Promise<void> {
  const { value } = await InputDialog.getText({
    title: trans.__('Save a copy'),
    label: trans.__("Path below the server's root folder"),
    text: saving.named('-copy'),
    okLabel: trans.__('Save')
  });
  const to = value?.trim().replace(/^\/+/, '') ?? '';
  if (to !== '') {
    const path = await saving.saveCopy('-copy', to);
    showCopy(notices, trans.__('A copy is saved as %1.', path), path);
  }
}
