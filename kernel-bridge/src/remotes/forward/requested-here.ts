/**
 * Which executions on remotes were requested through this gateway. A remote says itself what it has executed, and for whom;
 * that is worth nothing as an answer to whether its outputs may run scripts in the page. So it is written down here, when the
 * request passes.
 *
 * A file per remote with a line per execution: a digest of kernel, message and cell. Lines have one length and their number is
 * bounded; the oldest are forgotten, and their outputs are then shown as those of a stranger.
 */
import { createHash } from 'node:crypto';
import { appendFile, mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { RequestedExecution } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { writeAtomically } from '../../platform/write-atomically.js';

/** The newest of each remote. Of a cell that was run again only the last execution is ever asked for. */
const MAX_EXECUTIONS = 20_000;
const LINE = /^[0-9a-f]{32}$/;

export interface RequestedHereOptions {
  readonly stateDir: string;
  readonly log: Logger;
  readonly maxExecutions?: number;
}

export class RequestedHere implements AsyncDisposable {
  readonly #options: RequestedHereOptions;
  readonly #remotes = new Map<string, KnownExecutions>();

  constructor(options: RequestedHereOptions) {
    this.#options = options;
  }

  /** Remembered at once; written soon after. */
  note(remote: string, kernelId: string, execution: RequestedExecution): void {
    this.#of(remote).add(digestOf(kernelId, execution));
  }

  /** The messages that were requested here, of those that are named. */
  async among(
    remote: string,
    kernelId: string,
    executions: readonly RequestedExecution[]
  ): Promise<string[]> {
    // Names are the client's: nothing is kept for one that nobody has.
    const known = this.#remotes.get(remote) ?? this.#open(remote);
    await known.loaded;
    return executions.filter(each => known.has(digestOf(kernelId, each))).map(({ msgId }) => msgId);
  }

  /** Resolves when everything is written. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#remotes.values()].map(known => known.settled()));
  }

  #of(remote: string): KnownExecutions {
    const known = this.#remotes.get(remote) ?? this.#open(remote);
    this.#remotes.set(remote, known);
    return known;
  }

  /** @param remote a name that was checked: it becomes a file's */
  #open(remote: string): KnownExecutions {
    const { stateDir, log, maxExecutions = MAX_EXECUTIONS } = this.#options;
    return new KnownExecutions(path.join(stateDir, 'requested', remote), maxExecutions, log);
  }
}

class KnownExecutions {
  readonly loaded: Promise<void>;
  readonly #file: string;
  readonly #max: number;
  readonly #log: Logger;
  /** In the order in which they were requested. */
  #digests = new Set<string>();
  #unwritten: string[] = [];
  #lines = 0;
  #writing: Promise<void> | null = null;

  constructor(file: string, max: number, log: Logger) {
    this.#file = file;
    this.#max = max;
    this.#log = log;
    this.loaded = this.#load();
  }

  has(digest: string): boolean {
    return this.#digests.has(digest);
  }

  add(digest: string): void {
    if (this.#digests.has(digest)) return;
    this.#digests.add(digest);
    this.#unwritten.push(digest);
    this.#writing ??= this.#write().finally(() => (this.#writing = null));
  }

  async settled(): Promise<void> {
    await this.loaded;
    await this.#writing;
  }

  async #load(): Promise<void> {
    const text = await readFile(this.#file, 'utf8').catch(() => '');
    const lines = text.split('\n').filter(line => LINE.test(line));
    this.#lines = lines.length;
    // Those that were added meanwhile are newer.
    this.#digests = new Set([...lines, ...this.#digests]);
    this.#forget();
  }

  async #write(): Promise<void> {
    await this.loaded;
    while (this.#unwritten.length > 0) {
      const lines = this.#unwritten;
      this.#unwritten = [];
      this.#forget();
      try {
        await mkdir(path.dirname(this.#file), { recursive: true, mode: 0o700 });
        if (this.#lines + lines.length > 2 * this.#max) await this.#rewrite();
        else await this.#append(lines);
      } catch (error) {
        // What is in memory still counts; after a restart these outputs are shown as those of a stranger.
        this.#log.warn({ file: this.#file, err: error }, 'a request to a remote could not be written down');
      }
    }
  }

  async #append(lines: readonly string[]): Promise<void> {
    await appendFile(this.#file, `${lines.join('\n')}\n`, { mode: 0o600 });
    this.#lines += lines.length;
  }

  async #rewrite(): Promise<void> {
    await writeAtomically(this.#file, `${[...this.#digests].join('\n')}\n`);
    this.#lines = this.#digests.size;
  }

  #forget(): void {
    for (const oldest of this.#digests) {
      if (this.#digests.size <= this.#max) return;
      this.#digests.delete(oldest);
    }
  }
}

function digestOf(kernelId: string, { msgId, cellId }: RequestedExecution): string {
  const text = JSON.stringify([kernelId, msgId, cellId]);
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}
