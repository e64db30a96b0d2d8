/** Finds the kernel that somebody means: by its id, the beginning of its id, or the notebook that runs on it. */
import path from 'node:path';
import { CommandError } from '../output.js';
import { readdir, readFile, stat } from 'node:fs/promises';
import { Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { presenceOfKernel } from '../../keeper-protocol/keeper-file.js';
import { isKernelId } from '../../kernels/kernel-registry.js';
import { isSameProcess } from '../../platform/process-identity.js';
import { documentsOfKernel } from '../../kernels/kernel-documents.js';
import { jsonIn } from '../../platform/json-text.js';

export interface DocumentOfKernel {
  /** As the client named it, relative to its own root. */
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

/** Those that it runs on; else the one that it ran on last. */
function kernelsOfDocument(documents: readonly DocumentOfKernel[]): string[] {
  const now = documents.filter(({ ranUntil }) => ranUntil === null);
  const last = [...documents].sort((a, b) => (a.ranUntil ?? 0) - (b.ranUntil ?? 0)).slice(-1);
  return (now.length > 0 ? now : last).map(({ kernelId }) => kernelId);
}

/** The same path as the client's, or a file of which that is the end. */
function isPathOf(requested: string, documentPath: string, cwd: string): boolean {
  if (documentPath === '') return false;
  return requested === documentPath || path.resolve(cwd, requested).endsWith(`${path.sep}${documentPath}`);
}

const Sessions = Type.Object({
  sessions: Type.Array(Type.Object({ path: Type.String(), kernelId: Type.String() }))
});

/** The kernels of a state folder, as its files have them: no gateway need run. */
export function kernelFolder(stateDir: string, kernelId: string): string {
  return path.join(stateDir, 'kernels', kernelId);
}

/** Ids of the kernels whose journal is there, those that have ended among them. */
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

/** Which documents run on which kernels as the gateway last wrote it down, and which ran on those that have ended. */
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
  // Without it kernels are found by their ids.
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
