/**
 * Files on the user's own computer, opened through the browser (File System Access). The browser stores which files were opened, so that
 * a reload finds them again; the browser itself asks the user before a page reads or writes a file. Loaded when a file is chosen.
 */
import { trans } from '../text.js';

export interface BrowserFile {
  /** Stable for the same file, and therefore for the kernel that belongs to it. */
  readonly id: string;
  readonly handle: FileSystemFileHandle;
  /** Unix milliseconds. */
  readonly openedAt: number;
}

const DATABASE = 'tpulab-session';
const STORE = 'files';
/** Beyond this number the oldest entries are forgotten; the files themselves stay. */
const MAX_FILES = 20;

export const pathOf = ({ id, handle }: BrowserFile): string => `browser:${id}/${handle.name}`;

/** Null when the user closes the dialog without a choice. */
export async function chooseFile(): Promise<BrowserFile | null> {
  try {
    const [handle] =
      (await window.showOpenFilePicker?.({
        types: [{ description: trans.__('Notebook'), accept: { 'application/x-ipynb+json': ['.ipynb'] } }]
      })) ?? [];
    return handle === undefined ? null : await keep(handle);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') return null;
    throw error;
  }
}

/** Newest first. */
export async function storedFiles(): Promise<readonly BrowserFile[]> {
  const all = (await inStore('readonly', store => store.getAll())) as BrowserFile[];
  return all.sort((a, b) => b.openedAt - a.openedAt);
}

export async function storedFile(id: string): Promise<BrowserFile | null> {
  return ((await inStore('readonly', store => store.get(id))) as BrowserFile | undefined) ?? null;
}

/** @param mayAsk whether the browser may ask the user, which it does only after a click */
export async function mayWrite(handle: FileSystemFileHandle, mayAsk: boolean): Promise<boolean> {
  const mode = { mode: 'readwrite' } as const;
  const state = await (mayAsk ? handle.requestPermission?.(mode) : handle.queryPermission?.(mode));
  return state === undefined || state === 'granted';
}

async function keep(handle: FileSystemFileHandle): Promise<BrowserFile> {
  const before = await storedFiles();
  const same = await Promise.all(before.map(file => file.handle.isSameEntry(handle)));
  const known = before[same.indexOf(true)];
  const file = { id: known?.id ?? crypto.randomUUID(), handle, openedAt: Date.now() };
  await inStore('readwrite', store => store.put(file));
  for (const { id } of before.slice(MAX_FILES)) await inStore('readwrite', store => store.delete(id));
  return file;
}

async function inStore(
  mode: IDBTransactionMode,
  send: (store: IDBObjectStore) => IDBRequest
): Promise<unknown> {
  const opening = indexedDB.open(DATABASE, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(STORE, { keyPath: 'id' });
  const database = (await answered(opening)) as IDBDatabase;
  try {
    return await answered(send(database.transaction(STORE, mode).objectStore(STORE)));
  } finally {
    database.close();
  }
}

function answered(request: IDBRequest): Promise<unknown> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () =>
      reject(request.error ?? new Error(trans.__('The browser cannot store the list of opened files.')));
  });
}
