/** `<state>/remotes.json`: the remotes that a person has added. For this user alone: it names hosts, users and projects. */
import { readFile, rename } from 'node:fs/promises';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { RemoteName, RemoteSource } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { writeAtomically } from '../processes/write-atomically.js';

export const RemoteRecord = Type.Object({
  name: RemoteName,
  source: RemoteSource,
  environment: Type.String(),
  /** False: what is installed there is used, and nothing is put there. */
  install: Type.Boolean(),
  /** Connected when the gateway starts, and again whenever the connection is lost. */
  wanted: Type.Boolean(),
  /** Hosts as they were last known. */
  hosts: Type.Array(Type.String()),
  lastConnectedAt: Type.Union([Type.Number(), Type.Null()])
});
export type RemoteRecord = Static<typeof RemoteRecord>;

const RemotesJson = Type.Object({ version: Type.Literal(1), remotes: Type.Array(RemoteRecord) });

export class RemoteStore {
  readonly #file: string;
  readonly #log: Logger;
  #pending: readonly RemoteRecord[] | null = null;
  #writing: Promise<void> | null = null;

  constructor(stateDir: string, log: Logger) {
    this.#file = path.join(stateDir, 'remotes.json');
    this.#log = log;
  }

  /** A file that cannot be understood is put aside rather than overwritten. */
  async load(): Promise<readonly RemoteRecord[]> {
    let text: string;
    try {
      text = await readFile(this.#file, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw error;
    }
    try {
      const json: unknown = JSON.parse(text);
      if (Value.Check(RemotesJson, json)) return json.remotes;
    } catch {
      // Not even JSON: the same as JSON of another shape.
    }
    await rename(this.#file, `${this.#file}.damaged`);
    this.#log.warn({ file: this.#file }, 'remotes could not be read; the file was renamed to *.damaged');
    return [];
  }

  /** Of several calls in a row only the last matters. Resolves when this state, or a later one, is on disk. */
  save(remotes: readonly RemoteRecord[]): Promise<void> {
    this.#pending = remotes;
    return (this.#writing ??= this.#drain());
  }

  /** Resolves when nothing is left to write. */
  async settled(): Promise<void> {
    await this.#writing?.catch(() => undefined);
  }

  async #drain(): Promise<void> {
    try {
      while (this.#pending) {
        const text = JSON.stringify({ version: 1, remotes: this.#pending }, null, 1);
        this.#pending = null;
        await writeAtomically(this.#file, `${text}\n`);
      }
    } finally {
      this.#writing = null;
    }
  }
}
