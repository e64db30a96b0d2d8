/** sessions.json: which document belongs to which kernel, so that a new gateway knows it too. */
import { readFile, rename } from 'node:fs/promises';
import { Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import type { Logger } from 'pino';
import { writeAtomically } from '../processes/write-atomically.js';
import { SessionRecord } from './session.js';

const SessionsJson = Type.Object({ version: Type.Literal(1), sessions: Type.Array(SessionRecord) });

export class SessionFile {
  readonly #file: string;
  readonly #log: Logger;
  #pending: readonly SessionRecord[] | null = null;
  #writing: Promise<void> | null = null;

  constructor(file: string, log: Logger) {
    this.#file = file;
    this.#log = log;
  }

  /** What was kept; a file that cannot be understood is put aside rather than overwritten. */
  async load(): Promise<readonly SessionRecord[]> {
    let text: string;
    try {
      text = await readFile(this.#file, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw error;
    }
    try {
      const json: unknown = JSON.parse(text);
      if (Value.Check(SessionsJson, json)) return json.sessions;
    } catch {
      // Not even JSON: the same as JSON of another shape.
    }
    await rename(this.#file, `${this.#file}.damaged`);
    this.#log.warn({ file: this.#file }, 'sessions could not be read; the file was renamed to *.damaged');
    return [];
  }

  /** Writes soon; of several calls in a row only the last matters. Resolves when this state is on disk. */
  save(sessions: readonly SessionRecord[]): Promise<void> {
    this.#pending = sessions;
    return (this.#writing ??= this.#drain());
  }

  /** Resolves when nothing is left to write. */
  async settled(): Promise<void> {
    await this.#writing;
  }

  async #drain(): Promise<void> {
    try {
      while (this.#pending) {
        const text = JSON.stringify({ version: 1, sessions: this.#pending }, null, 1);
        this.#pending = null;
        await writeAtomically(this.#file, `${text}\n`);
      }
    } finally {
      // In the same turn as the last look at #pending, so that no state can be left behind.
      this.#writing = null;
    }
  }
}

export { writeAtomically };
