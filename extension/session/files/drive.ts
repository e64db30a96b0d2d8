/** JupyterLab's view of the gateway's files. A save replaces only the version that this page last saw. */
import { PathExt } from '@jupyterlab/coreutils';
import type { Contents, ServerConnection } from '@jupyterlab/services';
import type { FileEntry } from '@tpulab/protocol';
import { FileClient, FileRefusedError, type FileVersion } from './file-client.js';
import { shownAddress } from './shown-address.js';
import { PlainDrive } from './plain-drive.js';
import { trans } from '../text.js';

/** File name extension of nbformat's notebooks. */
const NOTEBOOK = '.ipynb';

class FileMissingError extends Error {
  readonly code = 'file_not_found';

  constructor(path: string) {
    super(trans.__('%1 does not exist', path));
  }
}

/** Bytes that are not UTF-8 would be changed by a save. @throws for text that is not UTF-8 */
export async function utf8(blob: Blob, { ignoreBOM = false } = {}): Promise<string> {
  const bytes = await blob.arrayBuffer();
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM }).decode(bytes);
  } catch (cause) {
    throw new Error(trans.__('It is not text in UTF-8. The file was not changed.'), { cause });
  }
}

export class BridgeDrive extends PlainDrive implements Contents.IDrive {
  readonly name = '';
  readonly files: FileClient;

  constructor(readonly serverSettings: ServerConnection.ISettings) {
    super();
    this.files = new FileClient(serverSettings);
  }

  async get(path: string, options: Contents.IFetchOptions = {}): Promise<Contents.IModel> {
    if (options.type === 'directory') {
      const { entries } = await this.files.list(path);
      return {
        ...modelOf(path, { etag: '', modifiedAt: '', createdAt: '', isWritable: true }, 'directory'),
        format: 'json',
        content: entries.map(modelOfEntry)
      };
    }
    if (options.content === false) {
      return this.inTurn(async () => modelOf(path, this.seen(path, await this.readVersion(path))));
    }
    const { blob, model } = await this.load(path);
    const text = await utf8(blob);
    return model.type === 'notebook'
      ? { ...model, format: 'json', content: this.notebooks.read(path, text) }
      : { ...model, format: 'text', content: text };
  }

  /** The whole content of a file, unchanged, with its version. */
  async load(path: string): Promise<{ blob: Blob; model: Contents.IModel }> {
    const { blob, version } = await tpulabRetry(() => this.files.load(path));
    return { blob, model: modelOf(path, this.seen(path, version)) };
  }

  async text(path: string): Promise<string> {
    return utf8(await this.files.bytes(path));
  }

  async discard(name: string, text: string): Promise<void> {
    await this.files.trash((await this.create(name, text)).path);
  }

  async save(path: string, options: Partial<Contents.IModel> = {}): Promise<Contents.IModel> {
    const { format } = options;
    const content: unknown = options.content;
    const isText = format === 'text';
    const text = isText ? String(content) : this.notebooks.text(path, content);
    if (!isText) this.notebooks.sending(path, text);
    const entry = await this.files.write(path, text, this._versions.get(path) ?? null);
    if (!isText) this.notebooks.setStored(path, text);
    const model = modelOf(path, this.seen(path, { ...entry, etag: entry.etag ?? '' }));
    this.fileChanged.emit({ type: 'save', oldValue: null, newValue: model });
    return model;
  }

  async rename(path: string, to: string): Promise<Contents.IModel> {
    return this.inTurn(async () => {
      const entry = await this.files.move(path, to);
      this._versions.delete(path);
      this._missing.add(path);
      this.notebooks.moved(path, to);
      const model = modelOf(to, this.seen(to, { ...entry, etag: entry.etag ?? '' }));
      this.fileChanged.emit({ type: 'rename', oldValue: { path }, newValue: model });
      return model;
    });
  }

  async delete(path: string): Promise<void> {
    await this.inTurn(async () => {
      await this.files.trash(path);
      this._versions.delete(path);
      this._missing.add(path);
      this.fileChanged.emit({ type: 'delete', oldValue: { path }, newValue: null });
    });
  }

  /** Moves the current file to the trash and writes the new content in its place. */
  async replace(path: string, text: string): Promise<Contents.IModel> {
    const entry = await this.files.replace(path, text);
    return modelOf(path, this.seen(path, { ...entry, etag: entry.etag ?? '' }));
  }

  /** The file no longer exists, so the next save creates it. Its folder may have been deleted with it. */
  async forget(path: string): Promise<void> {
    this._versions.delete(path);
    const names = path.split('/');
    for (let depth = 1; depth < names.length; depth += 1) {
      await this.files.makeFolder(names.slice(0, depth).join('/')).catch((error: unknown) => {
        if ((error as { code?: string }).code !== 'file_exists') throw error;
      });
    }
  }

  async newUntitled(options: Contents.ICreateOptions = {}): Promise<Contents.IModel> {
    return this.create(PathExt.join(options.path ?? '', `Untitled${options.ext ?? NOTEBOOK}`), '');
  }

  async copy(path: string, folder: string): Promise<Contents.IModel> {
    return this.create(PathExt.join(folder, PathExt.basename(path)), await this.text(path));
  }

  /** Creates a new file of that name, or with a number appended. */
  async create(wanted: string, text: string): Promise<Contents.IModel> {
    const ext = PathExt.extname(wanted);
    const stem = wanted.slice(0, wanted.length - ext.length);
    for (let number = 1; ; number += 1) {
      const path = number === 1 ? wanted : `${stem}-${number}${ext}`;
      try {
        const entry = await this.files.write(path, text, null);
        return modelOf(path, this.seen(path, { ...entry, etag: entry.etag ?? '' }));
      } catch (error) {
        if (!(error instanceof FileRefusedError && error.code === 'file_exists')) throw error;
      }
    }
  }

  /** An `<img>` cannot send a token, so it gets the content. A link gets the address of this page, which opens the file. */
  async getDownloadUrl(path: string): Promise<string> {
    const shown = await shownAddress(path, address => this.bytes(address));
    return shown ?? new URL(path.split('/').map(encodeURIComponent).join('/'), document.baseURI).href;
  }

  /** Content of a local file, or of a file on the machine of the notebook's kernel. */
  async bytes(path: string): Promise<Blob> {
    try {
      return await tpulabRetry(() => this.files.bytes(path));
    } catch (error) {
      const settings = this.kernelSettings();
      if (settings === null || settings.baseUrl === this.serverSettings.baseUrl) throw error;
      return new FileClient(settings).bytes(path).catch(() => {
        throw error;
      });
    }
  }

  /** Settings of the gateway on the kernel's machine; null: no gateway. */
  kernelSettings: () => ServerConnection.ISettings | null = () => null;

  /** A missing file is searched for in its folder: a browser reports each request for a missing file as an error. */
  private async readVersion(path: string): Promise<FileVersion> {
    if (this._missing.has(path)) {
      const { entries, isCut } = await this.files.list(PathExt.dirname(path));
      if (!isCut && !entries.some(entry => entry.path === path)) throw new FileMissingError(path);
    }
    try {
      return await this.files.readVersion(path);
    } catch (error) {
      if ((error as { code?: string }).code === 'file_not_found') this._missing.add(path);
      throw error;
    }
  }

  /** No file is checked while it is being moved or deleted. */
  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this._turn.then(work);
    this._turn = result.catch(() => undefined);
    return result;
  }

  private seen<T extends FileVersion>(path: string, version: T): T {
    this._versions.set(path, version.etag);
    this._missing.delete(path);
    return version;
  }

  private readonly _versions = new Map<string, string>();
  private readonly _missing = new Set<string>();
  private _turn: Promise<unknown> = Promise.resolve();
}

function modelOf(
  path: string,
  { etag, modifiedAt, createdAt, isWritable }: FileVersion,
  type: Contents.ContentType = path.endsWith(NOTEBOOK) ? 'notebook' : 'file'
): Contents.IModel {
  return {
    name: PathExt.basename(path),
    path,
    type,
    writable: isWritable,
    created: createdAt,
    last_modified: modifiedAt,
    mimetype: '',
    content: null,
    format: null,
    hash: etag,
    hash_algorithm: 'etag'
  };
}

function modelOfEntry(entry: FileEntry): Contents.IModel {
  const { path, kind, etag } = entry;
  return modelOf(path, { ...entry, etag: etag ?? '' }, kind === 'folder' ? 'directory' : undefined);
}
