/** `bridge/v1/files` and `bridge/v1/folders`, as typed calls. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { FileEntry, FileTrashed, FolderPage, TrashPage } from '@tpulab/protocol';
import { trans } from '../text.js';

/** Enough for a notebook with pictures over a slow network. */
const TIMEOUT_MS = 120_000;

/** The gateway refused the request. `code` is in docs/error-codes.md. */
export class FileRefusedError extends ServerConnection.ResponseError {
  constructor(
    response: Response,
    readonly code: string,
    message: string
  ) {
    super(response, message);
  }
}

export interface FileVersion {
  readonly etag: string;
  readonly modifiedAt: string;
  readonly createdAt: string;
  readonly isWritable: boolean;
}

/** The version that a write replaces; null: the file does not exist yet. */
export type Replaced = string | null;

export class FileClient {
  constructor(readonly settings: ServerConnection.ISettings) {}

  async load(path: string): Promise<{ blob: Blob; version: FileVersion }> {
    const response = await this.send('GET', 'files', path);
    return { blob: await response.blob(), version: versionOf(response) };
  }

  async readVersion(path: string): Promise<FileVersion> {
    return versionOf(await this.send('HEAD', 'files', path));
  }

  async bytes(path: string): Promise<Blob> {
    return (await this.load(path)).blob;
  }

  async list(path: string): Promise<FolderPage> {
    return (await (await this.send('GET', 'folders', path)).json()) as FolderPage;
  }

  async write(path: string, content: BodyInit, replaced: Replaced): Promise<FileEntry> {
    const headers: Record<string, string> =
      replaced === null ? { 'if-none-match': '*' } : { 'if-match': replaced };
    const response = await this.send('PUT', 'files', path, { body: content, headers });
    return (await response.json()) as FileEntry;
  }

  /** Moves the current file to the trash and writes the new content in its place. */
  async replace(path: string, content: BodyInit): Promise<FileEntry> {
    const { id } = await this.trash(path);
    return this.write(path, content, null).catch(async (error: unknown) => {
      await this.restore(id).catch(() => undefined);
      throw error;
    });
  }

  async move(path: string, to: string): Promise<FileEntry> {
    const body = JSON.stringify({ to });
    return (await (await this.send('PATCH', 'files', path, { body })).json()) as FileEntry;
  }

  async trash(path: string): Promise<FileTrashed> {
    return (await (await this.send('DELETE', 'files', path)).json()) as FileTrashed;
  }

  async makeFolder(path: string): Promise<FileEntry> {
    return (await (await this.send('POST', 'folders', path)).json()) as FileEntry;
  }

  async listTrash(): Promise<TrashPage> {
    return (await (await this.send('GET', 'trash', null)).json()) as TrashPage;
  }

  async restore(id: string): Promise<FileEntry> {
    const body = JSON.stringify({ id });
    return (await (await this.send('POST', 'trash', 'restore', { body })).json()) as FileEntry;
  }

  /** Deletes permanently: one item, or all (null). */
  async removeFromTrash(id: string | null): Promise<void> {
    await this.send('DELETE', 'trash', id);
  }

  private async send(
    method: string,
    what: 'files' | 'folders' | 'trash',
    path: string | null,
    init: RequestInit = {}
  ): Promise<Response> {
    const url = URLExt.join(this.settings.baseUrl, 'bridge/v1', what, URLExt.encodeParts(path ?? ''));
    const response = await ServerConnection.makeRequest(
      path === '' ? `${url}/` : url,
      { ...init, method, signal: AbortSignal.timeout(TIMEOUT_MS) },
      this.settings
    );
    if (response.ok) return response;
    // A response to HEAD has no body: GET returns the reason.
    if (method === 'HEAD' && response.status !== 404) return this.send('GET', what, path, init);
    const answer = (await response.json().catch(() => ({}))) as { code?: string; message?: string };
    throw new FileRefusedError(
      response,
      answer.code ?? (response.status === 404 ? 'file_not_found' : 'unknown'),
      answer.message ??
        trans.__('The server answered %1 to %2 %3/%4.', response.status, method, what, path ?? '')
    );
  }
}

function versionOf({ headers }: Response): FileVersion {
  const now = new Date(0).toISOString();
  return {
    etag: headers.get('etag') ?? '',
    modifiedAt: headers.get('x-tpulab-modified') ?? now,
    createdAt: headers.get('x-tpulab-created') ?? now,
    isWritable: headers.get('x-tpulab-writable') !== 'false'
  };
}
