/**
 * The folder of this page that is synced with each folder of a remote. The kernels of its notebooks start in the folder there,
 * so that local modules can be imported.
 */

import { PageConfig } from '@jupyterlab/coreutils';

const KEY = 'tpulab:synced:';

interface ISyncedFolder {
  /** As Lab names it: relative to the root of its files, '' for the root. */
  readonly folder: string;
  /** On the remote: absolute. */
  readonly remoteFolder: string;
}

/** A folder of Lab's files as the bridge finds it. @param folder as Lab names it, '' for all files */
export function folderUnder(folder: string): string {
  return `${PageConfig.getOption('serverRoot').replace(/\/+$/, '')}/${folder}`.replace(/\/$/, '');
}

export class SyncFolders {
  constructor(private readonly storage: Pick<Storage, 'getItem' | 'setItem'> | null) {}

  get(remote: string): ISyncedFolder | null {
    try {
      const value: unknown = JSON.parse(this.storage?.getItem(KEY + remote) ?? 'null');
      const isOne =
        typeof value === 'object' &&
        value !== null &&
        'folder' in value &&
        typeof value.folder === 'string' &&
        'remoteFolder' in value &&
        typeof value.remoteFolder === 'string';
      return isOne ? (value as ISyncedFolder) : null;
    } catch {
      return null; // written by another program
    }
  }

  set(remote: string, folder: ISyncedFolder): void {
    try {
      this.storage?.setItem(KEY + remote, JSON.stringify(folder));
    } catch {
      // Storage is full or forbidden: kernels start in the home folder there.
    }
  }

  /** The folder on `remote` in which a kernel for the document `path` starts; null when its folder is not synced. */
  pathOn(remote: string, path: string): string | null {
    const synced = this.get(remote);
    if (synced === null) return null;
    const { folder, remoteFolder } = synced;
    if (folder !== '' && path !== folder && !path.startsWith(`${folder}/`)) return null;
    const inside = folder === '' ? path : path.slice(folder.length + 1);
    return `${remoteFolder.replace(/\/+$/, '')}/${inside}`;
  }
}
