/**
 * The stored state of a remote's only runtime, in a folder for this user alone: `runtime.json`, and for each runtime a folder
 * of its name with the session file of `colab`, a key, and the host key that it presented. Session files contain tokens; only `colab` reads
 * them. A name is never reused, because `colab` would lose the earlier runtime of that name.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { writeAtomically } from '@tpulab/platform/write-atomically.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

const RuntimeRecord = Type.Object({
  session: Type.String({ pattern: '^tpulab-[a-z0-9]+$' }),
  /** `creating` until `colab` reports that it runs; it may run before that. */
  state: Type.Union([Type.Literal('creating'), Type.Literal('created')]),
  /** Runtimes that the account had before this one. */
  before: Type.Array(Type.String())
});
export type RuntimeRecord = Static<typeof RuntimeRecord>;

export interface RuntimeFiles {
  /** Session file of `colab`. */
  readonly config: string;
  readonly key: string;
  readonly knownHosts: string;
}

export class RuntimeRecords {
  constructor(private readonly folder: string) {}

  /** null: no runtime is known. */
  async read(): Promise<RuntimeRecord | null> {
    const json = jsonIn(await readFile(this.#file, 'utf8').catch(() => null));
    return Value.Check(RuntimeRecord, json) ? json : null;
  }

  /** Names a new runtime, and makes its folder and key. The record is written before the runtime is created. */
  async begin(before: readonly string[]): Promise<RuntimeRecord> {
    await this.#makeFolder(this.folder);
    const session = `tpulab-${randomBytes(4).toString('hex')}`;
    const { key } = this.filesOf(session);
    await this.#makeFolder(path.dirname(key));
    // No comment in the key: the comment travels with the public key, and would name the person and this computer.
    await promisify(execFile)('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', key]);
    return this.write({ session, state: 'creating', before: [...before] });
  }

  async write(record: RuntimeRecord): Promise<RuntimeRecord> {
    await this.#makeFolder(this.folder);
    await writeAtomically(this.#file, JSON.stringify(record));
    return record;
  }

  /** The runtime has ended, or never existed. */
  async forget(): Promise<void> {
    const record = await this.read();
    await rm(this.#file, { force: true });
    if (record) await rm(path.dirname(this.filesOf(record.session).key), { recursive: true, force: true });
  }

  filesOf(session: string): RuntimeFiles {
    const folder = path.join(this.folder, session);
    return {
      config: path.join(folder, 'sessions.json'),
      key: path.join(folder, 'id_ed25519'),
      knownHosts: path.join(folder, 'known_hosts')
    };
  }

  /** A session file for queries about the whole account while no runtime exists. */
  async emptyConfig(): Promise<string> {
    await this.#makeFolder(this.folder);
    return path.join(this.folder, 'none.json');
  }

  get #file(): string {
    return path.join(this.folder, 'runtime.json');
  }

  async #makeFolder(folder: string): Promise<void> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await chmod(folder, 0o700);
  }
}
