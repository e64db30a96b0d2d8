/** The kernels of a state folder, as its files have them: no gateway need run. */
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { presenceOfKernel } from '../../keeper-protocol/keeper-file.js';
import { isKernelId } from '../../kernels/kernel-registry.js';
import { isSameProcess } from '../../platform/process-identity.js';
import { documentsOfKernel } from '../../kernels/kernel-documents.js';
import type { DocumentOfKernel } from './choose-kernel.js';

const Sessions = Type.Object({
  sessions: Type.Array(Type.Object({ path: Type.String(), kernelId: Type.String() }))
});

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
  try {
    const json: unknown = JSON.parse(await readFile(path.join(stateDir, 'sessions.json'), 'utf8'));
    return Value.Check(Sessions, json) ? json.sessions.map(each => ({ ...each, ranUntil: null })) : [];
  } catch {
    // Without it kernels are found by their ids.
    return [];
  }
}

/** Whether the kernel's process runs, here or on another machine that shares the folder. */
export async function isKernelRunning(stateDir: string, kernelId: string): Promise<boolean> {
  const { record, presence } = await presenceOfKernel(kernelFolder(stateDir, kernelId));
  if (record === null || record.kernelPid === null) return false;
  if (presence !== 'here') return presence === 'elsewhere';
  return isSameProcess(record.kernelPid, record.kernelProcessStart);
}
