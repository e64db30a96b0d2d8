/**
 * Folders for unix sockets. A socket's path has a hard limit, and programs that are given one (ssh, rsync) read blanks, quotes, `%`, `$` and
 * `~` in it as their own syntax. So a folder below the state folder is used only where its path is short and plain.
 */
import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const PLAIN = /^(\/[\w.@+-]+)+$/;

/** Letters, digits and `_ . @ + -` between slashes: what no program expands, splits or quotes. */
export function isPlainPath(file: string): boolean {
  return PLAIN.test(file);
}

/**
 * `near`, where its path has at most `bytes` bytes and, unless it goes to no other program, is plain; else a folder of this user in a temporary folder, the same at each call
 * with the same `near`, so that the next process finds what this one left.
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
  // Somebody else has made a folder of that name.
  return mkdtempSync('/tmp/tpulab-');
}

/** Makes the folder; false where it is a link, another user's, or open to others. */
function isMine(folder: string): boolean {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch {
    // It is there, or the look says that it is not.
  }
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found?.isDirectory() === true && found.uid === process.getuid?.() && (found.mode & 0o077) === 0;
}
