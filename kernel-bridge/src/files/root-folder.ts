/**
 * The files below one folder. A link may point to another place below the root, never out of it: the resolved path is checked
 * and opened, and then used through the open handle, so that swapping a link meanwhile has no effect.
 */
import { bridgeError } from '@tpulab/platform/errors.js';
import { type BigIntStats, constants } from 'node:fs';
import {
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  realpath,
  rename,
  stat
} from 'node:fs/promises';
import path from 'node:path';
import {
  type FileEntry,
  type FileTrashed,
  type FolderPage,
  MAX_FILE_BYTES,
  type TrashPage
} from '@tpulab/protocol';
import {
  asFileError,
  ensureFolder,
  fileNamesOf,
  statOrNull,
  moveWithoutReplacing,
  namesOf,
  removeOldDrafts,
  replaceFile
} from './file-steps.js';
import { isWritable, syncFolder } from '@tpulab/platform/write-atomically.js';
import {
  emptyTrash,
  findInTrash,
  listTrash,
  placeInTrash,
  removeFromTrash,
  tidyTrash,
  TRASH
} from './trash.js';
import { InTurn } from '@tpulab/platform/waiting.js';
import { ifMissing } from '@tpulab/platform/missing-files.js';
import { isWithin } from '@tpulab/platform/paths.js';

const MAX_LISTED = 2_000;
const STAT_CONCURRENCY = 16;
const MAX_TIDIED = 1_000;
/** Opening must neither wait for a pipe nor follow a link that replaced the folder. */
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;

interface FileContent {
  readonly bytes: Buffer;
  readonly entry: FileEntry;
}

/** The condition of a write: the version that it replaces, no existing file, or (null) none. */
export type Expected = { readonly etag: string } | 'absent' | null;

/** A file that is replaced between every two attempts is being rewritten in a loop, so this gives up. */
const OPEN_TRIES = 50;

export class RootFolder {
  constructor(
    private readonly rootDir: string,
    private readonly limits = { fileBytes: MAX_FILE_BYTES, listed: MAX_LISTED }
  ) {}

  /** @throws BridgeError `file_…`, like all methods below */
  async entry(requested: string): Promise<FileEntry> {
    return guarded(requested, async () => {
      const real = await this.#resolve(namesOf(requested), requested);
      return entryOf(requested, real, await stat(real, { bigint: true }));
    });
  }

  async list(requested: string): Promise<FolderPage> {
    return guarded(requested, async () => {
      const folder = await this.#folder(namesOf(requested), requested);
      const names = (await readdir(folder)).filter(name => isPlainName(name)).sort(byName);
      const entries: FileEntry[] = [];
      const shown = names.slice(0, this.limits.listed);
      for (let first = 0; first < shown.length; first += STAT_CONCURRENCY) {
        const some = shown
          .slice(first, first + STAT_CONCURRENCY)
          .map(name => (requested === '' ? name : `${requested}/${name}`));
        // Omits entries that were removed meanwhile, lead out of the root, or are neither file nor folder.
        const found = await Promise.all(some.map(at => this.entry(at).catch(() => null)));
        entries.push(...found.filter(entry => entry !== null));
      }
      entries.sort((a, b) => Number(b.kind === 'folder') - Number(a.kind === 'folder'));
      return { path: requested, entries, isCut: names.length > this.limits.listed };
    });
  }

  async read(requested: string): Promise<FileContent> {
    return guarded(requested, async () => {
      const [folder, name] = fileNamesOf(requested);
      const real = await this.#resolve([...folder, name], requested);
      await using handle = await this.#open(real, requested);
      const { size } = await handle.stat();
      if (size > this.limits.fileBytes) throw bridgeError('file_too_large', requested, this.limits.fileBytes);
      const bytes = await readWhole(handle, size, this.limits.fileBytes, requested);
      return { bytes, entry: await entryOf(requested, real, await handle.stat({ bigint: true })) };
    });
  }

  /** Replaces a complete file, or creates one. Of two writes with the same known version, one is refused. */
  async write(
    requested: string,
    bytes: Uint8Array,
    expected: Expected
  ): Promise<{ entry: FileEntry; isNew: boolean }> {
    if (bytes.byteLength > this.limits.fileBytes)
      throw bridgeError('file_too_large', requested, this.limits.fileBytes);
    return this.#afterSaveOf(requested, async () => {
      const [folder, name] = fileNamesOf(requested);
      const parent = await this.#folder(folder, requested);
      const target = (await this.#existing(parent, name, requested)) ?? path.join(parent, name);
      return this.#in(path.dirname(target), requested, async at => {
        await this.#removeDrafts(at);
        const file = path.join(at, path.basename(target));
        const now = await statOrNull(file);
        if (now !== null && !now.isFile()) throw bridgeError('file_wrong_kind', requested, 'file');
        requireExpected(requested, now, expected);
        // A rename would also replace a read-only file.
        if (now !== null && !(await isWritable(file)))
          throw bridgeError('file_read_only', requested, Number(now.uid) !== process.getuid?.());
        // Writing a large draft to a slow disk delays no other save: only the last step is serialised.
        await replaceFile(file, bytes, now, replace =>
          this.#changes.run(async () => {
            const latest = await statOrNull(file);
            requireExpected(requested, latest, expected);
            if (now !== null && (latest === null || etagOf(latest) !== etagOf(now)))
              throw bridgeError('file_changed', requested);
            await replace();
          })
        );
        const entry = await entryOf(requested, file, await lstat(file, { bigint: true }));
        return { entry, isNew: now === null };
      });
    });
  }

  async makeFolder(requested: string): Promise<FileEntry> {
    return guarded(requested, async () => {
      const [folder, name] = fileNamesOf(requested);
      return this.#in(await this.#folder(folder, requested), requested, async at => {
        const made = path.join(at, name);
        await mkdir(made);
        return entryOf(requested, made, await lstat(made, { bigint: true }));
      });
    });
  }

  /** Never replaces an existing file. */
  async move(requested: string, to: string): Promise<FileEntry> {
    return this.#changes.run(() =>
      guarded(requested, async () => {
        const [folder, name] = fileNamesOf(requested);
        const [newFolder, newName] = fileNamesOf(to);
        const from = await this.#folder(folder, requested);
        await this.#resolve([...folder, name], requested);
        const target = await this.#folder(newFolder, to);
        if (isWithin(path.join(from, name), target)) throw bridgeError('file_wrong_kind', to, 'folder');
        return this.#in(from, requested, there =>
          this.#in(target, to, async at => {
            const moved = path.join(at, newName);
            await moveWithoutReplacing(path.join(there, name), moved, to);
            return entryOf(to, moved, await stat(moved, { bigint: true }));
          })
        );
      })
    );
  }

  /** Moves the file into a hidden folder of the root, so that a wrong click loses nothing. */
  async trash(requested: string, now = new Date()): Promise<FileTrashed> {
    return this.#changes.run(() =>
      guarded(requested, async () => {
        const [folder, name] = fileNamesOf(requested);
        return this.#in(await this.#folder(folder, requested), requested, async there => {
          const from = path.join(there, name);
          await lstat(from);
          const { id, at } = await placeInTrash(await this.#bin(), [...folder, name], now);
          await rename(from, at);
          await syncFolder(path.dirname(at));
          await syncFolder(there);
          return { path: requested, id, trashed: [TRASH, id, ...folder, name].join('/') };
        });
      })
    );
  }

  async listTrash(): Promise<TrashPage> {
    return guarded(TRASH, async () => listTrash(await this.#bin(), this.limits.listed));
  }

  /** Restores a deletion to its old path, and recreates missing parent folders. Never replaces an existing file. */
  async restore(id: string): Promise<FileEntry> {
    return this.#changes.run(() =>
      guarded(id, async () => {
        const bin = await this.#bin();
        const { at, path: requested } = await findInTrash(bin, id);
        return guarded(requested, async () => {
          const [folder, name] = fileNamesOf(requested);
          return this.#in(await this.#folderMade(folder, requested), requested, async there => {
            const target = path.join(there, name);
            await moveWithoutReplacing(at, target, requested);
            await tidyTrash(bin, at);
            return entryOf(requested, target, await lstat(target, { bigint: true }));
          });
        });
      })
    );
  }

  /** Permanent. */
  async removeFromTrash(id: string): Promise<void> {
    return this.#changes.run(() => guarded(id, async () => removeFromTrash(await this.#bin(), id)));
  }

  /** Permanent. @returns how many deletions it contained */
  async emptyTrash(): Promise<number> {
    return this.#changes.run(() => guarded(TRASH, async () => emptyTrash(await this.#bin())));
  }

  async #bin(): Promise<string> {
    return path.join(await realpath(this.rootDir), TRASH);
  }

  /** Creates a folder and its missing parents, each inside a folder that was checked. */
  async #folderMade(names: readonly string[], requested: string): Promise<string> {
    let real = await this.#folder([], requested);
    for (let count = 1; count <= names.length; count += 1) {
      await ensureFolder(path.join(real, names[count - 1] ?? ''));
      real = await this.#folder(names.slice(0, count), requested);
    }
    return real;
  }

  /** The real path of something that exists below the root. */
  async #resolve(names: readonly string[], requested: string): Promise<string> {
    const root = await realpath(this.rootDir);
    const real = await realpath(path.join(root, ...names));
    // Files outside look missing, so that a client learns nothing about them.
    if (!isWithin(root, real)) throw bridgeError('file_not_found', requested);
    const below = path.relative(root, real);
    if (below.split(path.sep).some(name => name.startsWith('.')))
      throw bridgeError('file_not_found', requested);
    return real;
  }

  async #folder(names: readonly string[], requested: string): Promise<string> {
    const real = await this.#resolve(names, requested);
    if (!(await stat(real)).isDirectory()) throw bridgeError('file_wrong_kind', requested, 'folder');
    return real;
  }

  /**
   * Runs the work with a path that refers to this folder, even if it is replaced meanwhile: Linux has such paths for open
   * files. Elsewhere the folder is checked once more.
   */
  async #in<T>(real: string, requested: string, work: (at: string) => Promise<T>): Promise<T> {
    await using handle = await open(real, FOLDER);
    const at = `/proc/self/fd/${handle.fd}`;
    const opened = await readlink(at).catch(() => null);
    if ((opened ?? (await realpath(real))) !== real) throw bridgeError('file_not_found', requested);
    return await work(opened === null ? real : at);
  }

  /** Once for each folder: removes drafts of killed programs. */
  async #removeDrafts(at: string): Promise<void> {
    const folder = await realpath(at);
    if (this.#tidiedFolders.has(folder)) return;
    if (this.#tidiedFolders.size >= MAX_TIDIED) this.#tidiedFolders.clear();
    this.#tidiedFolders.add(folder);
    await removeOldDrafts(at);
  }

  /** The target of a name in a real folder; null if nothing exists. A dangling link counts as existing. */
  async #existing(parent: string, name: string, requested: string): Promise<string | null> {
    const found = await lstat(path.join(parent, name)).catch(ifMissing(null));
    if (found === null) return null;
    const root = await realpath(this.rootDir);
    return this.#resolve(path.relative(root, path.join(parent, name)).split(path.sep), requested);
  }

  async #open(real: string, requested: string, tries = OPEN_TRIES): Promise<FileHandle> {
    const handle = await open(real, READ);
    try {
      const opened = await handle.stat();
      if (!opened.isFile()) throw bridgeError('file_wrong_kind', requested, 'file');
      const again = await realpath(real);
      const there = await lstat(again);
      if (again !== real) throw bridgeError('file_not_found', requested);
      if (there.ino === opened.ino && there.dev === opened.dev) return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
    await handle.close();
    // A save replaced the file in between: then the new file is the requested one.
    if (tries <= 1) throw bridgeError('file_changed', requested);
    return this.#open(real, requested, tries - 1);
  }

  /** Saves of one file run one after another, in the order of their arrival. */
  async #afterSaveOf<T>(requested: string, work: () => Promise<T>): Promise<T> {
    const saved = (this.#saves.get(requested) ?? Promise.resolve()).then(() => guarded(requested, work));
    const ended = saved.catch(() => undefined);
    this.#saves.set(requested, ended);
    await ended;
    if (this.#saves.get(requested) === ended) this.#saves.delete(requested);
    return saved;
  }

  readonly #changes = new InTurn();
  readonly #saves = new Map<string, Promise<unknown>>();
  readonly #tidiedFolders = new Set<string>();
}

function etagOf({ mtimeNs, size, ino }: BigIntStats): string {
  return `"${[mtimeNs, size, ino].map(part => part.toString(36)).join('-')}"`;
}

function requireExpected(requested: string, now: BigIntStats | null, expected: Expected): void {
  if (expected === 'absent') {
    if (now !== null) throw bridgeError('file_exists', requested);
  } else if (expected === null) {
    if (now !== null) throw bridgeError('file_version_missing', requested);
  } else if (now === null || etagOf(now) !== expected.etag) {
    throw bridgeError('file_changed', requested);
  }
}

async function entryOf(requested: string, real: string, found: BigIntStats): Promise<FileEntry> {
  const isFolder = found.isDirectory();
  if (!isFolder && !found.isFile()) throw bridgeError('file_wrong_kind', requested, 'file');
  return {
    name: requested.split('/').at(-1) ?? '',
    path: requested,
    kind: isFolder ? 'folder' : 'file',
    sizeBytes: isFolder ? null : Number(found.size),
    modifiedAt: timeOf(found.mtimeMs),
    createdAt: timeOf(found.birthtimeMs),
    isWritable: await isWritable(real),
    etag: isFolder ? null : etagOf(found)
  };
}

/** File systems can store times beyond the range of Date. */
function timeOf(ms: bigint): string {
  const time = new Date(Number(ms));
  return Number.isNaN(time.getTime()) ? new Date(0).toISOString() : time.toISOString();
}

async function readWhole(
  handle: FileHandle,
  size: number,
  limit: number,
  requested: string
): Promise<Buffer> {
  const bytes = Buffer.alloc(size);
  let at = 0;
  while (at < size) {
    const { bytesRead } = await handle.read(bytes, at, size - at, at);
    if (bytesRead === 0) break;
    at += bytesRead;
  }
  if (at > limit) throw bridgeError('file_too_large', requested, limit);
  return bytes.subarray(0, at);
}

function isPlainName(name: string): boolean {
  try {
    return namesOf(name).length === 1;
  } catch {
    return false;
  }
}

function byName(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true, sensitivity: 'base' });
}

async function guarded<T>(requested: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asFileError(error, requested);
  }
}
