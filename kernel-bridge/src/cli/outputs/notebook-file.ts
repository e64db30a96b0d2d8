/**
 * A notebook file into which outputs are written: it is read, and replaced in one step. The earlier version is stored
 * beside it, and a file that was saved in between is not overwritten.
 */
import type { BigIntStats } from 'node:fs';
import { readFile, realpath, stat } from 'node:fs/promises';
import { NotebookFormatError, NotebookText } from '@tpulab/protocol';
import { isWritable, writeAtomically } from '@tpulab/platform/write-atomically.js';
import { replaceFile } from '../../files/file-steps.js';
import { CommandError } from '../output.js';

/** Suffix of the backup's file name. It is our own: other backups must not be replaced. */
export const BACKUP_SUFFIX = '.before-outputs';

/** Invalid UTF-8 would be written back as other bytes. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const UNREAD: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'you may not read it',
  ELOOP: 'it is a link that leads to itself'
};
const readFailure = (code = 'unknown error'): string => UNREAD[code] ?? code;

export class NotebookFile {
  private constructor(
    /** The file itself, if the requested path is a link to it. */
    readonly path: string,
    readonly notebook: NotebookText,
    readonly text: string,
    private readonly seen: BigIntStats
  ) {}

  static async read(requested: string): Promise<NotebookFile> {
    try {
      const file = await realpath(requested);
      const seen = await stat(file, { bigint: true });
      // Reading a pipe would wait forever.
      if (!seen.isFile() && !seen.isDirectory()) throw new NotebookFormatError('it is no file');
      const text = UTF8.decode(await readFile(file));
      return new NotebookFile(file, new NotebookText(text), text, seen);
    } catch (cause) {
      const why =
        cause instanceof NotebookFormatError
          ? cause.message
          : cause instanceof TypeError
            ? 'it is not UTF-8'
            : readFailure((cause as NodeJS.ErrnoException).code);
      throw new CommandError('notebook_unusable', `The notebook ${requested} cannot be used: ${why}.`, {
        cause
      });
    }
  }

  /** Path of the backup; null if none was requested. */
  async replace(text: string, { backup }: { backup: boolean }): Promise<string | null> {
    const backupPath = backup ? `${this.path}${BACKUP_SUFFIX}` : null;
    await this.checkWritable();
    try {
      const mode = Number(this.seen.mode) & 0o777;
      if (backupPath !== null) await writeAtomically(backupPath, this.text, { mode });
      await replaceFile(this.path, Buffer.from(text), this.seen, async replace => {
        await this.#checkUnchanged();
        await replace();
      });
    } catch (cause) {
      if (cause instanceof CommandError) throw cause;
      const { code = 'unknown error' } = cause as NodeJS.ErrnoException;
      throw new CommandError(
        'notebook_not_written',
        `The notebook ${this.path} could not be written (${code}); it is unchanged. Check permissions and disk.`,
        { cause }
      );
    }
    return backupPath;
  }

  async checkWritable(): Promise<void> {
    if (await isWritable(this.path)) return;
    throw new CommandError(
      'notebook_not_written',
      `The notebook ${this.path} is read-only for you, and was left unchanged; make it writable or use a copy.`
    );
  }

  async #checkUnchanged(): Promise<void> {
    const now = await stat(this.path, { bigint: true });
    if (now.mtimeNs === this.seen.mtimeNs && now.size === this.seen.size && now.ino === this.seen.ino) return;
    throw new CommandError(
      'notebook_changed',
      `The notebook ${this.path} was saved in the meantime and was left unchanged; run the command again.`
    );
  }
}
