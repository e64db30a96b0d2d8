/** JupyterLab's view of one file on the user's own computer. A save replaces only the version that this page last saw. */
import { PathExt } from '@jupyterlab/coreutils';
import type { Contents, ServerConnection } from '@jupyterlab/services';
import { type BridgeDrive, utf8 } from './drive.js';
import { PlainDrive } from './plain-drive.js';
import { trans } from '../text.js';

class FileChangedError extends Error {
  readonly code = 'file_changed';
}

export class BrowserDrive extends PlainDrive implements Contents.IDrive {
  readonly name = 'browser';

  /** @param beside where a copy is written: the browser gives the page access to this file, not to its folder */
  constructor(
    private readonly handle: FileSystemFileHandle,
    private readonly beside: BridgeDrive
  ) {
    super();
  }

  get serverSettings(): ServerConnection.ISettings {
    return this.beside.serverSettings;
  }

  async get(path: string, options: Contents.IFetchOptions = {}): Promise<Contents.IModel> {
    const file = await this.handle.getFile();
    const content = options.content === false ? null : this.notebooks.read(path, await utf8(file));
    return { ...this.seen(path, file), ...(content !== null && { format: 'json', content }) };
  }

  async text(): Promise<string> {
    return utf8(await this.handle.getFile());
  }

  async save(path: string, { content }: Partial<Contents.IModel> = {}): Promise<Contents.IModel> {
    if (versionOf(await this.handle.getFile()) !== this._version) {
      throw new FileChangedError(trans.__('%1 was changed by another program.', this.handle.name));
    }
    // Written to a temporary file next to it, which replaces the file as a whole on close.
    const writable = await this.handle.createWritable();
    const text = this.notebooks.text(path, content);
    try {
      await writable.write(text);
    } catch (error) {
      await writable.abort();
      throw error;
    }
    await writable.close();
    this.notebooks.setStored(path, text);
    return this.seen(path, await this.handle.getFile());
  }

  /** Creates a copy in the root folder of the gateway. */
  create(path: string, text: string): Promise<Contents.IModel> {
    return this.beside.create(PathExt.basename(path), text);
  }

  async getDownloadUrl(): Promise<string> {
    throw new Error(
      trans.__('The browser gives this page access to the notebook only, not to the files beside it.')
    );
  }
  newUntitled(): Promise<Contents.IModel> {
    return this.beside.newUntitled();
  }
  async delete(): Promise<void> {
    throw new Error(OUTSIDE_FOLDER);
  }
  async rename(): Promise<Contents.IModel> {
    throw new Error(OUTSIDE_FOLDER);
  }
  async copy(): Promise<Contents.IModel> {
    throw new Error(OUTSIDE_FOLDER);
  }
  private seen(path: string, file: File): Contents.IModel {
    const at = new Date(file.lastModified).toISOString();
    this._version = versionOf(file);
    return {
      ...{ name: file.name, path, type: 'notebook', writable: true, created: at, last_modified: at },
      ...{ mimetype: '', content: null, format: null, hash: this._version, hash_algorithm: 'etag' }
    };
  }

  private _version = '';
}

const OUTSIDE_FOLDER = trans.__(
  'Rename, copy or delete this file where it is: the browser gives this page its content alone.'
);
const versionOf = ({ lastModified, size }: File): string => `${lastModified}-${size}`;
