/** Contents of the notebook, and the neighbouring files. */
import { type JSX, useEffect, useState } from 'react';
import { type FileEntry, secondsText } from '@tpulab/protocol';
import { addressOf, isBrowserFile } from '../page/address.js';
import { goToHeading, headingsOf } from '../notebook/headings.js';
import type { OpenSession } from '../page/open-session.js';
import type { SessionPage } from '../page/session-page.js';
import { Icon } from './icons.js';
import { useSignals } from './use-signal.js';
import { trans } from '../text.js';
import { IconButton } from './plain.js';

/** From this width the contents fit beside the notebook. */
export const WIDE = '(min-width: 1100px)';

interface DrawerProps {
  readonly page: SessionPage;
  readonly session: OpenSession;
  readonly onClose: () => void;
}

export function Drawer({ page, session, onClose }: DrawerProps): JSX.Element {
  const { panel, context, timing, textChanged } = session;
  const [, setReady] = useState(context.isReady);
  useEffect(() => void context.ready.then(() => setReady(true)), [context]);
  useSignals(textChanged, timing.changed, panel.content.activeCellChanged, context.fileChanged);
  const headings = context.isReady ? headingsOf(panel, timing) : [];
  const active = panel.content.activeCellIndex;
  const at = headings.findLastIndex(({ cell }) => cell <= active);
  return (
    <nav className="tpl-Drawer" aria-label={trans.__('Contents')} data-tpl-region="contents">
      <header>
        <h2>{trans.__('Contents')}</h2>
        <IconButton icon="left" label={trans.__('Close the contents')} onClick={onClose} />
      </header>
      {headings.length === 0 ? (
        <p className="jp-TPULab-quiet">{trans.__('Headings in text cells appear here.')}</p>
      ) : (
        <ol className="tpl-Contents">
          {headings.map(({ text, level, cell, state, ms }, index) => (
            <li key={`${cell} ${index}`}>
              <button
                type="button"
                className={`tpl-Contents-item${index === at ? ' jp-mod-active' : ''}`}
                style={{ paddingInlineStart: `${8 + (level - 1) * 14}px` }}
                aria-current={index === at ? 'location' : undefined}
                onClick={() => {
                  // An overlay would hide the requested place.
                  if (!window.matchMedia(WIDE).matches) onClose();
                  void goToHeading(panel, cell);
                }}
              >
                <span>{text}</span>
                <span className={`tpl-Contents-state jp-mod-${state ?? 'none'}`}>
                  {state === 'running'
                    ? trans.__('running')
                    : state === 'queued'
                      ? trans.__('queued')
                      : state === 'failed'
                        ? trans.__('failed')
                        : ms === null
                          ? ''
                          : secondsText(ms)}
                </span>
              </button>
            </li>
          ))}
        </ol>
      )}
      {page.access.isReadOnly || isBrowserFile(context.path) ? null : (
        <Files page={page} path={context.path} />
      )}
    </nav>
  );
}

function Files({ page, path }: { readonly page: SessionPage; readonly path: string }): JSX.Element {
  const folder = path.split('/').slice(0, -1).join('/');
  const [entries, setEntries] = useState<readonly FileEntry[]>([]);
  useEffect(() => {
    let isOver = false;
    const load = (): void => {
      page.drive.files.list(folder).then(
        listed => {
          if (!isOver) setEntries(listed.entries);
        },
        () => undefined
      );
    };
    load();
    page.drive.fileChanged.connect(load);
    return () => {
      isOver = true;
      page.drive.fileChanged.disconnect(load);
    };
  }, [page, folder]);
  return (
    <>
      <header>
        <h2>{trans.__('Files')}</h2>
        <span className="jp-TPULab-quiet">{folder === '' ? trans.__('root folder') : folder}</span>
      </header>
      <ul className="tpl-Files">
        {entries.slice(0, 200).map(({ name, path: file, kind }) => (
          <li key={file}>
            <Icon name={kind === 'folder' ? 'folder' : 'file'} />
            {kind === 'file' && file !== path ? (
              <a
                href={addressOf(window, file)}
                onClick={event => {
                  if (!name.endsWith('.ipynb')) return;
                  event.preventDefault();
                  void page.commands.execute('docmanager:open', { path: file });
                }}
              >
                {name}
              </a>
            ) : (
              <span>{name}</span>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}
