/**
 * Folders for unix sockets. A socket's path has a hard limit, and programs that receive one (ssh, rsync) treat blanks, quotes, `%`, `$` and
 * `~` in it as their own syntax. So a folder below the state folder is used only if its path is short and plain.
 */
import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const PLAIN = /^(\/[\w.@+-]+)+$/;

/** Letters, digits and `_ . @ + -` between slashes: characters that no program expands, splits or quotes. */
export function isPlainPath(file: string): boolean {
  return PLAIN.test(file);
}

/**
 * `near`, if its path has at most `bytes` bytes and is plain (unless no other program gets it); else this user's own temporary folder,
 * the same at each call with the same `near`, so that the next process finds the files of this one.
 */
export function socketFolder(near: string, bytes: number, options: { readonly odd?: boolean } = {}): string {
  if ((options.odd === true || isPlainPath(near)) && Buffer.byteLength(near) <= bytes) {
    mkdirSync(near, { recursive: true, mode: 0o700 });
    chmodSync(near, 0o700);
    return near;
  }
  const name = `tpulab-${process.getuid?.() ?? 'user'}`;
  const key = createHash('sha256').update(near).digest('hex').slice(0, 12);
  const bases = [process.env['XDG_RUNTIME_DIR'] ?? '', tmpdir(), '/tmp'];
  const fits = (base: string): boolean =>
    isPlainPath(base) && base.length + name.length + key.length + 2 <= bytes;
  for (const base of bases.filter(fits)) {
    const own = path.join(base, name);
    const folder = path.join(own, key);
    if (isMine(own) && isMine(folder)) return folder;
  }
  // Another user has created a folder of that name.
  return mkdtempSync('/tmp/tpulab-');
}

/** Creates the folder; false if it is a link, another user's, or open to others. */
function isMine(folder: string): boolean {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch {
    // It exists, or the following check fails.
  }
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found?.isDirectory() === true && found.uid === process.getuid?.() && (found.mode & 0o077) === 0;
}
