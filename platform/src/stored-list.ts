/** A list of records in a JSON file of the state folder, rewritten as a whole whenever it changes. */
import { rename } from 'node:fs/promises';
import { type Static, type TSchema, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import type { Logger } from 'pino';
import { type OnWriteFault, RETRY_MS } from './retried-write.js';
import { writeAtomically } from './write-atomically.js';
import { readIfThere } from './missing-files.js';

interface StoredListOptions<S extends TSchema> {
  readonly file: string;
  /** The name of the records in the file and in the log: `sessions`. */
  readonly name: string;
  readonly record: S;
  readonly log: Logger;
  readonly onFault?: OnWriteFault;
}

export class StoredList<S extends TSchema> {
  #pending: readonly Static<S>[] | null = null;
  #writing: Promise<void> | null = null;
  #retry: NodeJS.Timeout | null = null;

  constructor(private readonly options: StoredListOptions<S>) {}

  /** The stored records; a file that cannot be parsed is archived rather than overwritten. */
  async load(): Promise<readonly Static<S>[]> {
    const { file, name, record, log } = this.options;
    const text = await readIfThere(file);
    if (text === null) return [];
    try {
      const json: unknown = JSON.parse(text);
      const shape = Type.Object({ version: Type.Literal(1), [name]: Type.Array(record) });
      if (Value.Check(shape, json)) return (json as Record<string, unknown>)[name] as Static<S>[];
    } catch {
      // Invalid JSON is treated like JSON of the wrong shape.
    }
    await rename(file, `${file}.damaged`);
    log.warn({ file }, `${name} could not be read; the file was renamed to *.damaged`);
    return [];
  }

  /**
   * Writes soon; of several calls in a row only the last counts. Resolves when this state, or a later one, is on disk; rejects when the
   * disk refuses, and continues to retry.
   */
  save(records: readonly Static<S>[]): Promise<void> {
    this.#pending = records;
    return (this.#writing ??= this.#drain());
  }

  /** Resolves when nothing is left to write, or the disk has refused it once more. */
  async settled(): Promise<void> {
    await this.#writing?.catch(() => undefined);
    if (this.#retry) await this.#tryAgain();
    clearTimeout(this.#retry ?? undefined);
  }

  async #tryAgain(): Promise<void> {
    if (this.#pending) await this.save(this.#pending).catch(() => undefined);
  }

  async #drain(): Promise<void> {
    const { file, name, log, onFault } = this.options;
    const wasRefused = this.#retry !== null;
    clearTimeout(this.#retry ?? undefined);
    this.#retry = null;
    let writing: readonly Static<S>[] | null = null;
    try {
      while (this.#pending) {
        writing = this.#pending;
        this.#pending = null;
        await writeAtomically(file, `${JSON.stringify({ version: 1, [name]: writing }, null, 1)}\n`);
      }
      if (wasRefused) onFault?.(null);
    } catch (error) {
      this.#pending ??= writing;
      this.#retry = setTimeout(() => void this.#tryAgain(), RETRY_MS).unref();
      if (!wasRefused) {
        log.error({ file, err: error }, `${name} cannot be saved; it is tried again`);
        onFault?.(error as Error);
      }
      throw error;
    } finally {
      // In the same turn as the last check of #pending, so that no state is skipped.
      this.#writing = null;
    }
  }
}
