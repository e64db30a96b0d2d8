/**
 * Which executions on remotes were requested through this gateway. A remote reports what it has executed, and for whom;
 * that report cannot decide whether the outputs may run scripts in the page. So this gateway records each request as it
 * passes.
 *
 * One file per remote with one line per execution: a digest of kernel, message and cell. Lines have a fixed length and
 * their number is bounded; the oldest are dropped, and their outputs are then shown as untrusted.
 */
import { createHash } from 'node:crypto';
import { appendFile, mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { RequestedExecution } from '@tpulab/protocol';
import { parseHeader } from '../../jupyter/kernel-message.js';
import type { Logger } from 'pino';
import { writeAtomically } from '@tpulab/platform/write-atomically.js';
import { dropOldest } from '@tpulab/platform/bounded.js';

export interface SeenRequest {
  readonly msgId: string;
  /** null: not from a cell. */
  readonly cellId: string | null;
}

const MAX_ID = 256;
/** A request in the older protocol is parsed whole; a longer one is not trusted. */
const TEXT_BYTES = 1024 * 1024;
/** Parts of a v1 frame that are parsed, by the index of their offset: channel name, header, parent header, metadata. */
const V1 = { channel: 0, header: 1, parent: 2, metadata: 3, content: 4 } as const;
/** Only the newest of each remote: of several runs of a cell, only the last one is ever queried. */
const MAX_EXECUTIONS = 20_000;
const LINE = /^[0-9a-f]{32}$/;

interface RequestedExecutionsOptions {
  readonly stateDir: string;
  readonly log: Logger;
  readonly maxExecutions?: number;
}

export class RequestedExecutions implements AsyncDisposable {
  readonly #remotes = new Map<string, RequestLog>();

  constructor(private readonly options: RequestedExecutionsOptions) {}

  /** Stored in memory immediately; written to disk soon after. */
  note(remote: string, kernelId: string, execution: RequestedExecution): void {
    this.#of(remote).add(digestOf(kernelId, execution));
  }

  /** The given messages that were requested here. */
  async among(
    remote: string,
    kernelId: string,
    executions: readonly RequestedExecution[]
  ): Promise<string[]> {
    // Clients choose the names: nothing is stored for a remote that does not exist.
    const requests = this.#remotes.get(remote) ?? this.#open(remote);
    await requests.loaded;
    return executions.filter(each => requests.has(digestOf(kernelId, each))).map(({ msgId }) => msgId);
  }

  /** Resolves when all records are written. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#remotes.values()].map(requests => requests.settled()));
  }

  #of(remote: string): RequestLog {
    const requests = this.#remotes.get(remote) ?? this.#open(remote);
    this.#remotes.set(remote, requests);
    return requests;
  }

  /** @param remote a validated name: it becomes a file name */
  #open(remote: string): RequestLog {
    const { stateDir, log, maxExecutions = MAX_EXECUTIONS } = this.options;
    return new RequestLog(path.join(stateDir, 'requested', remote), maxExecutions, log);
  }
}

class RequestLog {
  readonly loaded: Promise<void>;
  /** In request order. */
  #digests = new Set<string>();
  #unwritten: string[] = [];
  #lines = 0;
  #writing: Promise<void> | null = null;

  constructor(
    private readonly file: string,
    private readonly max: number,
    private readonly log: Logger
  ) {
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
    const text = await readFile(this.file, 'utf8').catch(() => '');
    const lines = text.split('\n').filter(line => LINE.test(line));
    this.#lines = lines.length;
    // Digests added meanwhile are newer.
    this.#digests = new Set([...lines, ...this.#digests]);
    dropOldest(this.#digests, this.max);
  }

  async #write(): Promise<void> {
    await this.loaded;
    while (this.#unwritten.length > 0) {
      const lines = this.#unwritten;
      this.#unwritten = [];
      dropOldest(this.#digests, this.max);
      try {
        await mkdir(path.dirname(this.file), { recursive: true, mode: 0o700 });
        if (this.#lines + lines.length > 2 * this.max) await this.#rewrite();
        else await this.#append(lines);
      } catch (error) {
        // The entry in memory still counts; after a restart its outputs are shown as untrusted.
        this.log.warn({ file: this.file, err: error }, 'a request to a machine could not be written down');
      }
    }
  }

  async #append(lines: readonly string[]): Promise<void> {
    await appendFile(this.file, `${lines.join('\n')}\n`, { mode: 0o600 });
    this.#lines += lines.length;
  }

  async #rewrite(): Promise<void> {
    await writeAtomically(this.file, `${[...this.#digests].join('\n')}\n`);
    this.#lines = this.#digests.size;
  }
}

function digestOf(kernelId: string, { msgId, cellId }: RequestedExecution): string {
  const text = JSON.stringify([kernelId, msgId, cellId]);
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

/** The execution that a client's message requests; null: none, or the message is unreadable, so its outputs are not trusted. */
export function requestIn(message: Buffer, isBinary: boolean): SeenRequest | null {
  if (isBinary) return requestOfV1(message);
  return message.length > TEXT_BYTES ? null : requestOfText(message);
}

/** @param bytes a frame of `v1.kernel.websocket.jupyter.org` */
function requestOfV1(bytes: Buffer): SeenRequest | null {
  try {
    const offset = (index: number): number => Number(bytes.readBigUInt64LE(8 * (1 + index)));
    const part = (index: number): Buffer => {
      const [start, end] = [offset(index), offset(index + 1)];
      if (!(start <= end && end <= bytes.length)) throw new RangeError('not all of it is here');
      return bytes.subarray(start, end);
    };
    if (part(V1.channel).toString('latin1') !== 'shell') return null;
    return requestOf(parseHeader(part(V1.header)), JSON.parse(part(V1.metadata).toString('utf8')));
  } catch {
    return null;
  }
}

/** Clients of Jupyter's older protocol write a message as one JSON text. */
function requestOfText(bytes: Buffer): SeenRequest | null {
  try {
    const { header, metadata } = JSON.parse(bytes.toString('utf8')) as { header: unknown; metadata: unknown };
    return requestOf(parseHeader(Buffer.from(JSON.stringify(header))), metadata);
  } catch {
    return null;
  }
}

function requestOf(
  { msg_id: msgId, msg_type: type }: { readonly msg_id: string; readonly msg_type: string },
  metadata: unknown
): SeenRequest | null {
  const { cellId } = (metadata ?? {}) as { cellId?: unknown };
  if (type !== 'execute_request' || msgId === '' || msgId.length > MAX_ID) return null;
  return { msgId, cellId: typeof cellId === 'string' && cellId.length <= MAX_ID ? cellId : null };
}
