/** Finds the kernel that somebody means: by its id, the beginning of its id, or the notebook that runs on it. */
import path from 'node:path';
import { CommandError } from '../command-errors.js';

export interface DocumentOfKernel {
  /** As the client named it, relative to its own root. */
  readonly path: string;
  readonly kernelId: string;
  /** Unix milliseconds; null while it has a session. */
  readonly ranUntil: number | null;
}

export function chooseKernel(
  asked: string,
  ids: readonly string[],
  documents: readonly DocumentOfKernel[],
  cwd = process.cwd()
): string {
  const wanted = asked.toLowerCase();
  if (ids.includes(wanted)) return wanted;
  const byPrefix = /^[0-9a-f-]{2,36}$/.test(wanted) ? ids.filter(id => id.startsWith(wanted)) : [];
  const byDocument = kernelsOfDocument(documents.filter(each => isPathOf(asked, each.path, cwd)));
  const found = [...new Set([...byPrefix, ...byDocument])].filter(id => ids.includes(id));
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (found.length > 1) {
    throw new CommandError(
      'kernel_ambiguous',
      `"${asked}" matches ${found.length} kernels: ${found.slice(0, 5).join(', ')}; give more characters of the id.`
    );
  }
  const known =
    ids.length === 0
      ? 'there are no kernels here'
      : `known are ${ids.slice(0, 5).join(', ')}${ids.length > 5 ? ', …' : ''}`;
  throw new CommandError(
    'kernel_unknown',
    `There is no kernel "${asked}"; give an id, its first characters, or the path of a notebook (${known}).`
  );
}

/** Those that it runs on; else the one that it ran on last. */
function kernelsOfDocument(documents: readonly DocumentOfKernel[]): string[] {
  const now = documents.filter(({ ranUntil }) => ranUntil === null);
  const last = [...documents].sort((a, b) => (a.ranUntil ?? 0) - (b.ranUntil ?? 0)).slice(-1);
  return (now.length > 0 ? now : last).map(({ kernelId }) => kernelId);
}

/** The same path as the client's, or a file of which that is the end. */
function isPathOf(asked: string, documentPath: string, cwd: string): boolean {
  if (documentPath === '') return false;
  return asked === documentPath || path.resolve(cwd, asked).endsWith(`${path.sep}${documentPath}`);
}
