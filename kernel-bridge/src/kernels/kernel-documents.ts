/**
 * documents.json in a kernel's folder: the documents that used the kernel, so that its outputs can be found by the path of
 * a notebook after kernel and session have ended.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import type { Logger } from 'pino';
import type { OnWriteFault } from '@tpulab/platform/retried-write.js';
import { StoredList } from '@tpulab/platform/stored-list.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

const DocumentsJson = Type.Object({ version: Type.Literal(1), paths: Type.Array(Type.String()) });
const FILE = 'documents.json';
/** Renaming a notebook repeatedly must not grow the file without limit. */
const MAX_PATHS = 20;

/** As the clients named them, the newest last; empty when there is no file, or it cannot be parsed. */
export async function documentsOfKernel(kernelDir: string): Promise<readonly string[]> {
  const json = jsonIn(await readFile(path.join(kernelDir, FILE), 'utf8').catch(() => null));
  return Value.Check(DocumentsJson, json) ? json.paths : [];
}

/** Writes a kernel's documents. */
export class KernelDocuments implements AsyncDisposable {
  readonly #file: StoredList<ReturnType<typeof Type.String>>;
  #loading: Promise<readonly string[]> | null = null;
  #paths: readonly string[] | null = null;

  constructor(kernelDir: string, log: Logger, onFault?: OnWriteFault) {
    this.#file = new StoredList({
      file: path.join(kernelDir, FILE),
      name: 'paths',
      record: Type.String(),
      log,
      ...(onFault ? { onFault } : {})
    });
  }

  /** Resolves when the path is on disk; rejects when the disk refuses, and continues to retry. */
  async note(documentPath: string): Promise<void> {
    const loaded = await (this.#loading ??= this.#file.load());
    const known = this.#paths ?? loaded;
    if (documentPath === '' || known.at(-1) === documentPath) return;
    this.#paths = [...known.filter(each => each !== documentPath), documentPath].slice(-MAX_PATHS);
    await this.#file.save(this.#paths);
  }

  /** Called when the kernel or the gateway has ended: tries once more to write unsaved paths. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.settled();
  }
}
