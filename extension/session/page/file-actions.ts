/** Renaming, moving and deleting below the root folder, each with confirmation. Open documents of this page follow their file. */
import { InputDialog, showErrorMessage } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { SessionPage } from './session-page.js';
import { sure } from '../../src/ui/sure.js';
import { messageOf, trans } from '../text.js';

const ROOT = '/';
const NOTEBOOK = '.ipynb';

/** Resolves with the new path, null when nothing was changed. Never rejects, like the other actions. */
export async function renameFile(page: SessionPage, path: string): Promise<string | null> {
  const before = PathExt.basename(path);
  const extension = before.endsWith(NOTEBOOK) ? NOTEBOOK : '';
  const { value } = await InputDialog.getText({
    title: trans.__('Rename %1', before),
    label: trans.__('Name'),
    text: before,
    okLabel: trans.__('Rename'),
    selectionRange: before.length - extension.length
  });
  const typed = value?.trim() ?? '';
  const name = typed.endsWith(extension) ? typed : typed + extension;
  return typed === '' || name === extension || name === before
    ? null
    : put(page, path, PathExt.join(PathExt.dirname(path), name), trans.__('%1 was not renamed', before));
}

/** Moves into another folder, which the user chooses or types. */
export async function moveFile(page: SessionPage, path: string): Promise<string | null> {
  const before = PathExt.dirname(path);
  const { value } = await InputDialog.getItem({
    title: trans.__('Move %1', PathExt.basename(path)),
    label: trans.__('Folder'),
    items: await nearbyFolders(page, before, path),
    current: ROOT + before,
    editable: true,
    okLabel: trans.__('Move')
  });
  const folder = value?.trim().replace(/^\/+|\/+$/g, '');
  return folder === undefined || folder === before
    ? null
    : put(
        page,
        path,
        PathExt.join(folder, PathExt.basename(path)),
        trans.__('%1 was not moved', PathExt.basename(path))
      );
}

/** Creates a folder in `folder`; resolves with its path, null when none was created. */
export const newFolder = (page: SessionPage, folder: string): Promise<string | null> =>
  make(trans.__('New folder'), '', folder, path => page.drive.files.makeFolder(path));

/** Creates an empty file: a text, or a notebook with the content `emptyNotebook`. */
export const newFile = (page: SessionPage, folder: string, emptyNotebook: string): Promise<string | null> =>
  make(trans.__('New file'), 'untitled.py', folder, path =>
    page.drive.create(path, path.endsWith(NOTEBOOK) ? emptyNotebook : '')
  );

async function make(
  title: string,
  text: string,
  folder: string,
  create: (path: string) => Promise<{ readonly path: string }>
): Promise<string | null> {
  const { value } = await InputDialog.getText({
    title,
    label: trans.__('Name'),
    text,
    okLabel: trans.__('Create')
  });
  const name = value?.trim() ?? '';
  if (name === '') return null;
  try {
    return (await create(PathExt.join(folder, name))).path;
  } catch (error) {
    await showErrorMessage(trans.__('%1 was not created', name), messageOf(error));
    return null;
  }
}

/** Moves to the trash; true when it is there. The kernels of deleted files are shut down. */
export async function deleteFile(page: SessionPage, path: string): Promise<boolean> {
  const name = PathExt.basename(path);
  const kernels = sessionsBelow(page, path).length;
  const stops =
    kernels === 0 ? '' : trans._n('Its kernel is shut down.', '%1 kernels are shut down.', kernels);
  const isSure = await sure(
    trans.__('Delete %1?', name),
    [trans.__("It is moved to .tpulab-trash in the server's root folder."), stops].join(' ').trim(),
    trans.__('Delete')
  );
  if (!isSure) return false;
  try {
    const sessions = sessionsBelow(page, path);
    await page.drive.delete(path);
    await Promise.allSettled(sessions.map(({ id }) => page.managers.sessions.shutdown(id)));
    return true;
  } catch (error) {
    await showErrorMessage(trans.__('%1 was not deleted', name), messageOf(error));
    return false;
  }
}

async function put(page: SessionPage, path: string, to: string, failed: string): Promise<string | null> {
  try {
    const sessions = sessionsBelow(page, path);
    await page.drive.rename(path, to);
    // A notebook that is open here has already updated its session.
    await Promise.allSettled(
      sessions.map(async model => {
        const session = page.managers.sessions.connectTo({ model });
        try {
          await session.setPath(to + model.path.slice(path.length));
        } finally {
          session.dispose();
        }
      })
    );
    return to;
  } catch (error) {
    await showErrorMessage(failed, messageOf(error));
    return null;
  }
}

function sessionsBelow({ managers }: SessionPage, path: string) {
  return [...managers.sessions.running()].filter(
    session => session.path === path || session.path.startsWith(`${path}/`)
  );
}

/** The root folder, its subfolders, and the neighbours and subfolders of `folder`. */
async function nearbyFolders(
  { drive: { files } }: SessionPage,
  folder: string,
  moved: string
): Promise<string[]> {
  const lists = await Promise.allSettled(
    [...new Set(['', folder, folder === '' ? '' : PathExt.dirname(folder)])].map(each => files.list(each))
  );
  const found = lists
    .flatMap(list => (list.status === 'fulfilled' ? list.value.entries : []))
    .filter(({ kind, path }) => kind === 'folder' && path !== moved)
    .map(({ path }) => ROOT + path);
  return [...new Set([ROOT, ...(folder === '' ? [] : [ROOT + folder]), ...found.sort()])];
}
