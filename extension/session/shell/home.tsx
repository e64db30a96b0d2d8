/** Without a notebook: those of the root folder, new ones from a template, and a place to drop one. */
import { type DragEvent, type JSX, useEffect, useState } from 'react';
import type { FileEntry, FolderPage } from '@tpulab/protocol';
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { addressOf } from '../page/address.js';
import { deleteFile, moveFile, renameFile } from '../page/file-actions.js';
import type { SessionPage } from '../page/session-page.js';
import type { Theme } from '../page/theme.js';
import { notebookOf, TEMPLATES } from '../files/templates.js';
import { Brand } from './brand.js';
import { Icon } from './icons.js';
import { Menu } from './menu.js';

export interface HomeProps {
  readonly page: SessionPage;
  readonly theme: Theme;
}

export function Home({ page }: HomeProps): JSX.Element {
  const [folder, setFolder] = useState('');
  const [listed, setListed] = useState<FolderPage | null>(null);
  const [why, setWhy] = useState<string | null>(null);
  const [isOver, setOver] = useState(false);
  const { files } = page.drive;
  const load = (): void => {
    files.list(folder).then(setListed, (error: unknown) => setWhy(messageOf(error)));
  };
  useEffect(load, [files, folder]);
  const go = (path: string): void => window.location.assign(addressOf(window, path));
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
    const [file] = event.dataTransfer.files;
    if (!file?.name.endsWith('.ipynb')) {
      setWhy('Drop a notebook: a file whose name ends with .ipynb.');
      return;
    }
    void file.text().then(text => create(file.name, text));
  };
  const openFile = async (): Promise<void> => {
    const { chooseFile, pathOf } = await import('../files/browser-files.js');
    const file = await chooseFile();
    if (file) {
      go(pathOf(file));
    }
  };
  const lessons = async (): Promise<void> => {
    const settings = page.drive.serverSettings;
    const url = URLExt.join(settings.baseUrl, 'bridge/v1/lessons');
    const response = await ServerConnection.makeRequest(url, { method: 'POST', body: '{}' }, settings);
    const answer = (await response.json()) as { folder?: string; message?: string };
    if (response.ok) {
      setFolder(answer.folder ?? '');
      load();
    } else {
      setWhy(answer.message ?? 'The lessons could not be copied.');
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
      </header>
      {why === null ? null : <p role="alert">{why}</p>}
      <section aria-labelledby="tpl-new">
        <h2 id="tpl-new">Start</h2>
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
            <strong>Lessons</strong>
            <span>Copies the notebooks that come with TPULab; those that are there are kept.</span>
          </button>
          {canOpenFiles() ? (
            <button
              type="button"
              className="tpl-Card"
              onClick={() => void openFile().catch((error: unknown) => setWhy(messageOf(error)))}
            >
              <Icon name="folder" />
              <strong>Open from this computer…</strong>
              <span>A notebook on your disk, saved where it is.</span>
            </button>
          ) : null}
        </div>
      </section>
      <section aria-labelledby="tpl-files">
        <h2 id="tpl-files">
          {folder === '' ? 'Notebooks' : folder}
          {folder === '' ? null : (
            <button
              type="button"
              className="tpl-Button"
              onClick={() => setFolder(folder.split('/').slice(0, -1).join('/'))}
            >
              Up
            </button>
          )}
        </h2>
        {listed === null ? (
          <p>Loading…</p>
        ) : (
          <Entries page={page} entries={listed.entries} onFolder={setFolder} onChange={load} />
        )}
        <p className="jp-TPULab-quiet">Drop a notebook anywhere on this page to copy it here and open it.</p>
      </section>
      {canOpenFiles() ? <KeptFiles /> : null}
    </main>
  );
}

const canOpenFiles = (): boolean => 'showOpenFilePicker' in window;

/** Files of this computer that were opened before. */
function KeptFiles(): JSX.Element | null {
  const [files, setFiles] = useState<readonly { readonly path: string; readonly name: string }[]>([]);
  useEffect(() => {
    void import('../files/browser-files.js')
      .then(async ({ keptFiles, pathOf }) =>
        setFiles((await keptFiles()).map(file => ({ path: pathOf(file), name: file.handle.name })))
      )
      .catch(() => undefined);
  }, []);
  return files.length === 0 ? null : (
    <section aria-labelledby="tpl-computer">
      <h2 id="tpl-computer">Opened from this computer</h2>
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
  onChange
}: {
  readonly page: SessionPage;
  readonly entries: readonly FileEntry[];
  readonly onFolder: (path: string) => void;
  /** A file was renamed, moved or deleted. */
  readonly onChange: () => void;
}): JSX.Element {
  const act = (action: (page: SessionPage, path: string) => Promise<unknown>, path: string) => () =>
    void action(page, path).then(onChange);
  const shown = entries.filter(({ kind, name }) => kind === 'folder' || name.endsWith('.ipynb'));
  return shown.length === 0 ? (
    <p className="jp-TPULab-quiet">No notebook is here yet.</p>
  ) : (
    <ul className="tpl-Home-files">
      {shown.map(({ path, name, kind, modifiedAt }) => (
        <li key={path}>
          <Icon name={kind === 'folder' ? 'folder' : 'file'} />
          {kind === 'folder' ? (
            <button type="button" className="jp-TPULab-link" onClick={() => onFolder(path)}>
              {name}
            </button>
          ) : (
            <a href={addressOf(window, path)}>{name}</a>
          )}
          <time dateTime={modifiedAt}>{new Date(modifiedAt).toLocaleDateString()}</time>
          <Menu
            label={`More for ${name}`}
            button={<Icon name="more" />}
            items={[
              { label: 'Rename…', onClick: act(renameFile, path) },
              { label: 'Move…', onClick: act(moveFile, path) },
              { label: 'Delete…', onClick: act(deleteFile, path) }
            ]}
          />
        </li>
      ))}
    </ul>
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
