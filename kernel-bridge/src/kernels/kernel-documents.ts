/**
 * documents.json in a kernel's folder: the documents that ran on it, so that its outputs are still found by the path of a notebook
 * when kernel and session have ended.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { writeAtomically } from '../processes/write-atomically.js';

const DocumentsJson = Type.Object({ version: Type.Literal(1), paths: Type.Array(Type.String()) });
const FILE = 'documents.json';
/** Renaming a notebook all day must not make a long file. */
const MAX_PATHS = 20;

/** As the clients named them, the newest last; empty where nothing was noted. */
export async function documentsOfKernel(kernelDir: string): Promise<readonly string[]> {
  try {
    const json: unknown = JSON.parse(await readFile(path.join(kernelDir, FILE), 'utf8'));
    return Value.Check(DocumentsJson, json) ? json.paths : [];
  } catch {
    return [];
  }
}

export async function noteDocument(kernelDir: string, documentPath: string): Promise<void> {
  const known = await documentsOfKernel(kernelDir);
  if (documentPath === '' || known.at(-1) === documentPath) return;
  const paths = [...known.filter(each => each !== documentPath), documentPath].slice(-MAX_PATHS);
  await writeAtomically(path.join(kernelDir, FILE), `${JSON.stringify({ version: 1, paths })}\n`);
}
