/** The page without a notebook: the files of the root folder, new files from templates, and a place to drop files. */
import { type DragEvent, type JSX, lazy, Suspense, useEffect, useRef, useState } from 'react';
import { type FileEntry, type FolderPage, sizeText } from '@tpulab/protocol';
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { addressOf, runsAddress } from '../page/address.js';
import { download } from '../../src/platform/download.js';
import { deleteFile, moveFile, newFile, newFolder, renameFile } from '../page/file-actions.js';
import { goTo } from '../page/page-commands.js';
import type { SessionPage } from '../page/session-page.js';
import { EMPTY, notebookOf, TEMPLATES } from '../../src/launcher/templates.js';
import { Brand, Button } from './plain.js';
import { Icon } from './icons.js';
import { Menu } from '../../src/ui/menu.js';
import { messageOf, trans } from '../text.js';

const Trash = lazy(() => import('./trash.js'));

export default function Home({ page }: { readonly page: SessionPage }): JSX.Element {
  const [folder, setFolder] = useState('');
  const [listed, setListed] = useState<FolderPage | null>(null);
  const [why, setWhy] = useState<string | null>(null);
  const [statusText, setStatusText] = useState('');
  const [isOver, setOver] = useState(false);
  const picker = useRef<HTMLInputElement>(null);
  const [isTrashOpen, setTrashOpen] = useState(false);
  /** Number of file changes: list and trash are read again after each. */
  const [changes, setChanges] = useState(0);
  const { files } = page.drive;
  useEffect(() => {
    let isOver = false;
    files.list(folder).then(
      // Another folder may have been opened in the meantime.
      found => isOver || setListed(found),
      (error: unknown) => setWhy(messageOf(error))
    );
    return () => {
      isOver = true;
    };
  }, [files, folder, changes]);
  const onChange = (): void => setChanges(count => count + 1);
  const go = (path: string): void => goTo(page, addressOf(window, path));
  const create = (file: string, text: string): void => {
    const path = folder === '' ? file : `${folder}/${file}`;
    page.drive.create(path, text).then(
      model => go(model.path),
      (error: unknown) => setWhy(messageOf(error))
    );
  };
  const onDrop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    const dropped = [...event.dataTransfer.files];
    const [file] = dropped;
    if (dropped.length === 1 && file?.name.endsWith('.ipynb')) {
      void file.text().then(text => create(file.name, text));
    } else {
      void uploadAll(dropped);
    }
  };
  const uploadAll = async (chosen: readonly File[]): Promise<void> => {
    if (chosen.length === 0) return;
    try {
      const { upload } = await import('../page/upload.js');
      await upload(page, folder, chosen, setStatusText);
    } catch (error) {
      setWhy(messageOf(error));
    }
    onChange();
  };
  const openFile = async (): Promise<void> => {
    const { chooseFile, pathOf } = await import('../files/browser-files.js');
    const file = await chooseFile();
    if (file) go(pathOf(file));
  };
  const lessons = async (): Promise<void> => {
    const settings = page.drive.serverSettings;
    const url = URLExt.join(settings.baseUrl, 'bridge/v1/examples');
    const response = await ServerConnection.makeRequest(url, { method: 'POST', body: '{}' }, settings);
    const answer = (await response.json()) as { folder?: string; message?: string };
    if (response.ok) {
      setFolder(answer.folder ?? '');
      onChange();
    } else {
      setWhy(answer.message ?? trans.__('The examples could not be copied.'));
    }
  };
  return (
    <main
      className={`tpl-Home${isOver ? ' jp-mod-dropTarget' : ''}`}
      onDragOver={event => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      <header>
        <Brand />
        <h1>TPULab</h1>
        {page.access.isReadOnly ? null : <a href={runsAddress(window)}>{trans.__('Runs')}</a>}
      </header>
      {why === null ? null : <p role="alert">{why}</p>}
      <section aria-labelledby="tpl-new">
        <h2 id="tpl-new">{trans.__('Start')}</h2>
        <div className="tpl-Home-cards">
          {TEMPLATES.map(template => (
            <button
              key={template.id}
              type="button"
              className="tpl-Card"
              onClick={() => create(template.file, notebookOf(template))}
            >
              <Icon name="plus" />
              <strong>{template.label}</strong>
              <span>{template.about}</span>
            </button>
          ))}
          <button type="button" className="tpl-Card" onClick={() => void lessons()}>
            <Icon name="file" />
            <strong>{trans.__('Examples')}</strong>
            <span>
              {trans.__('Copies the notebooks that come with TPULab; existing files stay unchanged.')}
            </span>
          </button>
          {canOpenFiles() ? (
            <button
              type="button"
              className="tpl-Card"
              onClick={() => void openFile().catch((error: unknown) => setWhy(messageOf(error)))}
            >
              <Icon name="folder" />
              <strong>{trans.__('Open from this computer…')}</strong>
              <span>{trans.__('A notebook on your disk, saved where it is.')}</span>
            </button>
          ) : null}
        </div>
      </section>
      <section aria-labelledby="tpl-files">
        <h2 id="tpl-files">
          {folder === '' ? trans.__('Files') : folder}
          {folder === '' ? null : (
            <Button onClick={() => setFolder(folder.split('/').slice(0, -1).join('/'))}>
              {trans.__('Up')}
            </Button>
          )}
          <Button onClick={() => void newFolder(page, folder).then(made => made !== null && onChange())}>
            {trans.__('New folder…')}
          </Button>
          <Button
            onClick={() =>
              void newFile(page, folder, notebookOf(EMPTY)).then(path => path !== null && go(path))
            }
          >
            {trans.__('New file…')}
          </Button>
          <Button onClick={() => picker.current?.click()}>{trans.__('Upload…')}</Button>
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            onChange={({ target }) => {
              void uploadAll([...(target.files ?? [])]);
              // So that the same file can be chosen again.
              target.value = '';
            }}
          />
          <Button aria-expanded={isTrashOpen} onClick={() => setTrashOpen(!isTrashOpen)}>
            {trans.__('Trash')}
          </Button>
        </h2>
        {listed === null ? (
          <p>{trans.__('Loading…')}</p>
        ) : (
          <Entries
            page={page}
            entries={listed.entries}
            onFolder={setFolder}
            onChange={onChange}
            onFailure={setWhy}
          />
        )}
        <p className="jp-TPULab-quiet">
          {trans.__('Drop files anywhere on this page to copy them here; a single notebook is opened.')}
        </p>
        <p role="status">{statusText}</p>
      </section>
      {isTrashOpen ? (
        <Suspense fallback={null}>
          <Trash page={page} changes={changes} onChange={onChange} />
        </Suspense>
      ) : null}
      {canOpenFiles() ? <StoredFiles /> : null}
    </main>
  );
}

const canOpenFiles = (): boolean => 'showOpenFilePicker' in window;

/** Files of this computer that were opened earlier. */
function StoredFiles(): JSX.Element | null {
  const [files, setFiles] = useState<readonly { readonly path: string; readonly name: string }[]>([]);
  useEffect(() => {
    void import('../files/browser-files.js')
      .then(async ({ storedFiles, pathOf }) =>
        setFiles((await storedFiles()).map(file => ({ path: pathOf(file), name: file.handle.name })))
      )
      .catch(() => undefined);
  }, []);
  return files.length === 0 ? null : (
    <section aria-labelledby="tpl-computer">
      <h2 id="tpl-computer">{trans.__('Opened from this computer')}</h2>
      <ul className="tpl-Home-files">
        {files.map(({ path, name }) => (
          <li key={path}>
            <Icon name="file" />
            <a href={addressOf(window, path)}>{name}</a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Entries({
  page,
  entries,
  onFolder,
  onChange,
  onFailure
}: {
  readonly page: SessionPage;
  readonly entries: readonly FileEntry[];
  readonly onFolder: (path: string) => void;
  /** Called after a file was renamed, moved or deleted. */
  readonly onChange: () => void;
  readonly onFailure: (why: string) => void;
}): JSX.Element {
  const act = (action: (page: SessionPage, path: string) => Promise<unknown>, path: string) => () =>
    void action(page, path).then(onChange);
  const save = (path: string) => () =>
    void page.drive.files.bytes(path).then(
      bytes => download(path, bytes),
      (error: unknown) => onFailure(messageOf(error))
    );
  return entries.length === 0 ? (
    <p className="jp-TPULab-quiet">{trans.__('Nothing is here yet.')}</p>
  ) : (
    <ul className="tpl-Home-files">
      {entries.map(({ path, name, kind, sizeBytes, modifiedAt }) => (
        <li key={path}>
          <Icon name={kind === 'folder' ? 'folder' : 'file'} />
          {kind === 'folder' ? (
            <button type="button" className="jp-TPULab-link" onClick={() => onFolder(path)}>
              {name}
            </button>
          ) : (
            <a href={addressOf(window, path)}>{name}</a>
          )}
          <span className="tpl-Home-size">{sizeBytes === null ? '' : sizeText(sizeBytes)}</span>
          <time dateTime={modifiedAt}>{new Date(modifiedAt).toLocaleDateString()}</time>
          <Menu
            buttonClass="tpl-IconButton"
            label={trans.__('More for %1', name)}
            button={<Icon name="more" />}
            items={[
              { label: trans.__('Rename…'), onClick: act(renameFile, path) },
              { label: trans.__('Move…'), onClick: act(moveFile, path) },
              ...(kind === 'file' ? [{ label: trans.__('Download'), onClick: save(path) }] : []),
              { label: trans.__('Delete…'), onClick: act(deleteFile, path) }
            ]}
          />
        </li>
      ))}
    </ul>
  );
}
