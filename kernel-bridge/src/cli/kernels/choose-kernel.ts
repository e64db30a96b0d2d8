/** Finds the named kernel: by its id, the beginning of its id, or the notebook that runs on it. */
import path from 'node:path';
import { CommandError } from '../output.js';
import { readdir, readFile, stat } from 'node:fs/promises';
import { Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { presenceOfKernel } from '../../keeper-protocol/keeper-file.js';
import { isKernelId } from '../../kernels/kernel-registry.js';
import { isSameProcess } from '@tpulab/platform/process-identity.js';
import { documentsOfKernel } from '../../kernels/kernel-documents.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

interface DocumentOfKernel {
  /** Path in the client's notation, relative to its own root. */
  readonly path: string;
  readonly kernelId: string;
  /** Unix milliseconds; null while it has a session. */
  readonly ranUntil: number | null;
}

export function chooseKernel(
  requested: string,
  ids: readonly string[],
  documents: readonly DocumentOfKernel[],
  cwd = process.cwd()
): string {
  const lowerCase = requested.toLowerCase();
  if (ids.includes(lowerCase)) return lowerCase;
  const byPrefix = /^[0-9a-f-]{2,36}$/.test(lowerCase) ? ids.filter(id => id.startsWith(lowerCase)) : [];
  const byDocument = kernelsOfDocument(documents.filter(each => isPathOf(requested, each.path, cwd)));
  const found = [...new Set([...byPrefix, ...byDocument])].filter(id => ids.includes(id));
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (found.length > 1) {
    throw new CommandError(
      'kernel_ambiguous',
      `"${requested}" matches ${found.length} kernels: ${found.slice(0, 5).join(', ')}; give more characters of the id.`
    );
  }
  const known =
    ids.length === 0
      ? 'there are no kernels here'
      : `known are ${ids.slice(0, 5).join(', ')}${ids.length > 5 ? ', …' : ''}`;
  throw new CommandError(
    'kernel_unknown',
    `There is no kernel "${requested}"; give an id, its first characters, or the path of a notebook (${known}).`
  );
}

/** The kernels on which the document runs; otherwise the kernel on which it last ran. */
function kernelsOfDocument(documents: readonly DocumentOfKernel[]): string[] {
  const now = documents.filter(({ ranUntil }) => ranUntil === null);
  const last = [...documents].sort((a, b) => (a.ranUntil ?? 0) - (b.ranUntil ?? 0)).slice(-1);
  return (now.length > 0 ? now : last).map(({ kernelId }) => kernelId);
}

/** Whether the paths are equal, or the client's path is the end of the file's path. */
function isPathOf(requested: string, documentPath: string, cwd: string): boolean {
  if (documentPath === '') return false;
  return requested === documentPath || path.resolve(cwd, requested).endsWith(`${path.sep}${documentPath}`);
}

const Sessions = Type.Object({
  sessions: Type.Array(Type.Object({ path: Type.String(), kernelId: Type.String() }))
});

/** The folder of a kernel in a state folder, found from its files: no gateway needs to run. */
export function kernelFolder(stateDir: string, kernelId: string): string {
  return path.join(stateDir, 'kernels', kernelId);
}

/** Ids of all kernels with a journal there, including ended ones. */
export async function kernelsInState(stateDir: string): Promise<string[]> {
  const names = await readdir(path.join(stateDir, 'kernels')).catch(() => []);
  const found = await Promise.all(
    names.filter(isKernelId).map(async id => {
      const journal = await stat(path.join(kernelFolder(stateDir, id), 'journal')).catch(() => null);
      return journal?.isDirectory() === true ? [id] : [];
    })
  );
  return found.flat();
}

/**
 * Which documents run on which kernels, as the gateway last recorded it, and which documents ran on kernels that have
 * ended.
 */
export async function documentsInState(stateDir: string): Promise<DocumentOfKernel[]> {
  const past = (await kernelsInState(stateDir)).map(async kernelId => {
    const folder = kernelFolder(stateDir, kernelId);
    const found = await stat(path.join(folder, 'journal')).catch(() => null);
    const ranUntil = found?.mtimeMs ?? 0;
    return (await documentsOfKernel(folder)).map(each => ({ path: each, kernelId, ranUntil }));
  });
  return [...(await sessionsInState(stateDir)), ...(await Promise.all(past)).flat()];
}

async function sessionsInState(stateDir: string): Promise<DocumentOfKernel[]> {
  // Without this file kernels are found by their ids.
  const json = jsonIn(await readFile(path.join(stateDir, 'sessions.json'), 'utf8').catch(() => null));
  return Value.Check(Sessions, json) ? json.sessions.map(each => ({ ...each, ranUntil: null })) : [];
}

/** Whether the kernel's process runs, here or on another machine that shares the folder. */
export async function isKernelRunning(stateDir: string, kernelId: string): Promise<boolean> {
  const { record, presence } = await presenceOfKernel(kernelFolder(stateDir, kernelId));
  if (record === null || record.kernelPid === null) return false;
  if (presence !== 'here') return presence === 'elsewhere';
  return isSameProcess(record.kernelPid, record.kernelProcessStart);
}
