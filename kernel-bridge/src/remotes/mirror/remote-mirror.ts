/**
 * Mirrors the kernels of one remote while it can be reached: those that its gateway lists, and those that are here in part from
 * an earlier time. One stream for each kernel, taken up again where it was lost.
 */
import { setMaxListeners } from 'node:events';
import { Value } from '@sinclair/typebox/value';
import { KernelEvent } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { type RemoteAnswer, RemoteGateway } from '../remote-gateway.js';
import type { MirrorBudget } from './mirror-budget.js';
import { MirroredJournal } from './mirrored-journal.js';
import { FrameBudget, framesOf, StreamError } from './stream-frames.js';
import { pause } from '../../platform/waiting.js';
import { writeAtomically } from '../../platform/write-atomically.js';
import type { Readable } from 'node:stream';
import path from 'node:path';
import { KernelDocuments } from '../../kernels/kernel-documents.js';
import { jsonIn } from '../../platform/json-text.js';

export interface RemoteMirrorOptions {
  /** How its gateway is reached. */
  readonly gateway: ConstructorParameters<typeof RemoteGateway>[0];
  /** Kernels that are here in part. */
  readonly unfinished: readonly string[];
  /** Of all its kernels, kept beyond this connection. */
  readonly space: MirrorBudget;
  /** Kernels that have a folder here, kept beyond this connection. */
  readonly knownKernels: Set<string>;
  /** When each kernel's journal was begun again, kept beyond this connection. */
  readonly restarts: Map<string, number[]>;
  /** A line for the log of the remote. */
  readonly onLog: (line: string) => void;
  readonly folderOf: (kernelId: string) => string;
  readonly log: Logger;
  readonly onProgress: (kernelId: string, progress: KernelProgress) => void;
  readonly silenceMs?: number;
}

export interface KernelProgress {
  readonly state: 'following' | 'behind' | 'ended' | 'unknown';
  readonly behindBytes: number;
}

const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 30_000;
const KERNEL_ID = /^[0-9a-f-]{36}$/i;
/** Kernels that are read at the same time; the others wait. */
const MAX_FOLLOWED = 64;
/** Each becomes a folder here. More than any machine has had. */
const MAX_KERNELS = 2_000;
/** The events of the kernels of one machine at once. */
const MAX_EVENTS_BYTES = 4 * 1024 * 1024;

export class RemoteMirror implements AsyncDisposable {
  readonly #gateway: RemoteGateway;
  readonly #over = new AbortController();
  readonly #following = new Map<string, Promise<void>>();
  readonly #waiting = new Set<string>();
  readonly #budget = new FrameBudget();
  readonly #watching: Promise<void>;

  constructor(private readonly options: RemoteMirrorOptions) {
    // Each kernel that is followed waits for it.
    setMaxListeners(0, this.#over.signal);
    this.#gateway = new RemoteGateway(options.gateway, err =>
      options.log.error({ err }, 'the list of kernels of a machine cannot be read')
    );
    for (const kernelId of options.unfinished) this.#follow(kernelId);
    this.#watching = this.#watch();
  }

  /** Stops following; what has come is on disk. Joins what is under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await Promise.all([this.#watching, ...this.#following.values()]);
    this.#gateway[Symbol.dispose]();
  }

  /** The list of kernels, as it changes; asked for again whenever the socket is lost. */
  async #watch(): Promise<void> {
    const { signal } = this.#over;
    for (let attempt = 0; !signal.aborted; attempt++) {
      const wasOpen = await this.#listen(signal);
      if (wasOpen) attempt = 0;
      await pause(retryMs(attempt), signal);
    }
  }

  /** Resolves when the socket has ended: whether it had been open. */
  async #listen(signal: AbortSignal): Promise<boolean> {
    const socket = await this.#gateway
      .openSocket('/bridge/v1/events', { signal, maxBytes: MAX_EVENTS_BYTES })
      .catch(() => null);
    if (socket === null) return false;
    const closed = new Promise<void>(resolve => socket.once('close', () => resolve()));
    socket.on('ping', data => socket.pong(data));
    socket.on('message', data => this.#take(data));
    socket.send(JSON.stringify({ op: 'subscribe', topics: ['kernels'] }));
    socket.resume();
    await closed;
    return true;
  }

  /** What is not as it should be is not about kernels of ours. */
  #take(data: unknown): void {
    for (const event of eventsOf(String(data))) {
      if (Value.Check(KernelEvent, event) && !event.removed) this.#follow(event.kernelId);
    }
  }

  #follow(kernelId: string): void {
    // It becomes a folder's name.
    if (!KERNEL_ID.test(kernelId) || this.#following.has(kernelId) || this.#over.signal.aborted) return;
    const { knownKernels: known } = this.options;
    if (known.size >= MAX_KERNELS && !known.has(kernelId)) return;
    known.add(kernelId);
    if (this.#following.size >= MAX_FOLLOWED) {
      this.#waiting.add(kernelId);
      return;
    }
    const followed = this.#run(kernelId)
      .catch((error: unknown) => {
        this.options.log.error({ kernelId, err: error }, 'the journal of a remote kernel cannot be mirrored');
      })
      .finally(() => {
        this.#following.delete(kernelId);
        const [next] = this.#waiting;
        if (next === undefined) return;
        this.#waiting.delete(next);
        this.#follow(next);
      });
    this.#following.set(kernelId, followed);
  }

  #mayRestart(kernelId: string): boolean {
    const { restarts } = this.options;
    const now = performance.now();
    const recent = (restarts.get(kernelId) ?? []).filter(at => now - at < 60_000);
    if (recent.length >= RESTARTS) return false;
    restarts.set(kernelId, [...recent, now]);
    return true;
  }

  async #run(kernelId: string): Promise<void> {
    const { log, onProgress, onLog, silenceMs, space } = this.options;
    const { signal } = this.#over;
    for (let attempt = 0; !signal.aborted; attempt++) {
      const report = (progress: KernelProgress): void => onProgress(kernelId, progress);
      try {
        await using journal = await MirroredJournal.open(this.options.folderOf(kernelId), space);
        const before = journal.nextSeq;
        const end = await followJournal({
          gateway: this.#gateway,
          kernelId,
          journal,
          signal,
          budget: this.#budget,
          mayRestart: () => this.#mayRestart(kernelId),
          log,
          ...(silenceMs === undefined ? {} : { silenceMs }),
          onProgress: ({ behindBytes }) => report({ state: 'following', behindBytes })
        });
        if (end !== 'disconnected') {
          report({ state: end, behindBytes: 0 });
          return;
        }
        if (journal.nextSeq > before) attempt = 0;
      } catch (error) {
        // A full disk of ours, or a stream that is not one: later, and without harm to what people do meanwhile.
        log.warn({ kernelId, err: error }, 'mirroring was interrupted');
        report({ state: 'behind', behindBytes: 0 });
        if (error instanceof RestartStorm) {
          onLog(
            `the journal of kernel ${kernelId} is not copied for ${LEFT_ALONE_MS / 60_000} minutes: ${error.message}`
          );
          await pause(LEFT_ALONE_MS, signal);
        } else if (attempt === 0)
          onLog(
            `the journal of kernel ${kernelId} cannot be copied now (${(error as Error).message}); it is tried again`
          );
      }
      report({ state: 'behind', behindBytes: 0 });
      await pause(retryMs(attempt), signal);
    }
  }
}

/** How often the remote may begin another journal for one kernel in a minute. */
const RESTARTS = 3;
const LEFT_ALONE_MS = 10 * 60_000;

function eventsOf(text: string): readonly unknown[] {
  // A remote that sends anything else has no kernels for us.
  const { op, events } = (jsonIn(text) ?? {}) as { op?: unknown; events?: unknown };
  return op === 'events' && Array.isArray(events) ? events : [];
}

function retryMs(attempt: number): number {
  return Math.min(FIRST_RETRY_MS * 2 ** Math.min(attempt, 10), LONGEST_RETRY_MS);
}

/* Follows the journal of one kernel of a remote for as long as the remote can be reached and the kernel lives. */

/** It is left alone for a while. */
class RestartStorm extends StreamError {}

/** `ended`: all of it is here. `unknown`: the remote has no such kernel and no journal of one. */
export type FollowEnd = 'ended' | 'unknown' | 'disconnected';

export interface FollowOptions {
  readonly gateway: RemoteGateway;
  readonly kernelId: string;
  readonly journal: MirroredJournal;
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** Of its remote. */
  readonly budget: FrameBudget;
  readonly onProgress: (progress: { readonly behindBytes: number }) => void;
  /** Whether the remote may begin another journal for this kernel now. */
  readonly mayRestart: () => boolean;
  /** Without a byte for so long the connection counts as lost; the remote says its standing more often. */
  readonly silenceMs?: number;
}

const SILENCE_MS = 35_000;

/** Rejects with a `StreamError` when the remote sends what is not a journal, and with the system's error when our disk fails. */
export async function followJournal(options: FollowOptions): Promise<FollowEnd> {
  const { gateway, kernelId, journal, signal, log } = options;
  let response: RemoteAnswer;
  try {
    const silenceMs = options.silenceMs ?? SILENCE_MS;
    response = await gateway.answer({ method: 'GET', target: pathOf(kernelId, journal), signal, silenceMs });
  } catch {
    return 'disconnected';
  }
  if (response.status !== 200) {
    response.body.destroy();
    return response.status === 404 ? 'unknown' : 'disconnected';
  }
  await using documents = new KernelDocuments(journal.kernelDir, log);
  let behindBytes = 0;
  try {
    for await (const frame of framesOf(guarded(response.body), { budget: options.budget, signal })) {
      if (frame.kind === 'records') {
        await journal.append(frame.bytes);
        behindBytes = Math.max(behindBytes - frame.bytes.length, 0);
      } else if (frame.kind === 'skipped') {
        behindBytes = Math.max(behindBytes - frame.bytes, 0);
      } else if (frame.note.kind === 'restart') {
        if (!options.mayRestart()) throw new RestartStorm('the machine begins one journal after the other');
        const lastSeq = journal.nextSeq - 1;
        const aside = await journal.restart();
        log.warn(
          { kernelId, lastSeq, aside },
          'the machine has another journal; the copy of the old one was archived'
        );
      } else if (frame.note.kind === 'standing') {
        behindBytes = frame.note.behindBytes;
        // Only helps to find the outputs later: no harm comes to the records, and it is tried again.
        for (const each of frame.note.documents ?? []) await documents.note(each).catch(() => undefined);
      } else if (frame.note.kind === 'ended') {
        const { endedAt, reason, specName } = frame.note;
        await writeAtomically(path.join(journal.kernelDir, 'ended.json'), {
          kernelId,
          specName,
          endedAt,
          reason
        });
        options.onProgress({ behindBytes: 0 });
        return 'ended';
      }
      options.onProgress({ behindBytes });
    }
  } catch (error) {
    if (error instanceof ConnectionLost) return 'disconnected';
    throw error;
  } finally {
    response.body.destroy();
  }
  return 'disconnected';
}

function pathOf(kernelId: string, { nextSeq, checksum }: MirroredJournal): string {
  const query = new URLSearchParams({ from: String(nextSeq) });
  if (checksum !== undefined) query.set('checksum', String(checksum));
  return `/bridge/v1/kernels/${encodeURIComponent(kernelId)}/journal/stream?${query.toString()}`;
}

class ConnectionLost extends Error {}

/** Tells a lost connection apart from a failing disk of ours, which shows in the same loop. */
async function* guarded(response: Readable): AsyncGenerator<Buffer, void, void> {
  try {
    yield* response as AsyncIterable<Buffer>;
  } catch (cause) {
    if (cause instanceof StreamError) throw cause;
    throw new ConnectionLost('the connection was lost', { cause });
  }
}
