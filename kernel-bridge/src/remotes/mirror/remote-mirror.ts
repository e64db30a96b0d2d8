/**
 * Mirrors the kernels of one remote while it is reachable: the kernels that its gateway lists, and kernels with a partial
 * copy from an earlier connection. Each kernel has one stream, which resumes after its last record.
 */
import { setMaxListeners } from 'node:events';
import { Value } from '@sinclair/typebox/value';
import { KernelEvent } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { type RemoteAnswer, RemoteGateway } from '@tpulab/machines';
import type { MirrorBudget } from './mirror-budget.js';
import { MirroredJournal } from './mirrored-journal.js';
import { FrameBudget, framesOf, StreamError } from './stream-frames.js';
import { pause } from '@tpulab/platform/waiting.js';
import { writeAtomically } from '@tpulab/platform/write-atomically.js';
import type { Readable } from 'node:stream';
import path from 'node:path';
import { KernelDocuments } from '../../kernels/kernel-documents.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

export interface RemoteMirrorOptions {
  readonly gateway: ConstructorParameters<typeof RemoteGateway>[0];
  /** Kernels with a partial copy here. */
  readonly unfinished: readonly string[];
  /** Budget for all kernels of the remote; it outlives this connection. */
  readonly space: MirrorBudget;
  /** Kernels that have a folder here; the set outlives this connection. */
  readonly knownKernels: Set<string>;
  /** When each kernel's journal was restarted; the map outlives this connection. */
  readonly restarts: Map<string, number[]>;
  /** Receives a line for the log of the remote. */
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
const MAX_RETRY_MS = 30_000;
const KERNEL_ID = /^[0-9a-f-]{36}$/i;
/** Kernels that are followed at the same time; the others wait. */
const MAX_FOLLOWED = 64;
/** Limit of kernels, because each becomes a folder here. It is higher than any machine has needed. */
const MAX_KERNELS = 2_000;
/** Maximum size of one message with the events of a machine's kernels. */
const MAX_EVENTS_BYTES = 4 * 1024 * 1024;

export class RemoteMirror implements AsyncDisposable {
  readonly #gateway: RemoteGateway;
  readonly #over = new AbortController();
  readonly #following = new Map<string, Promise<void>>();
  readonly #waiting = new Set<string>();
  readonly #budget = new FrameBudget();
  readonly #watching: Promise<void>;

  constructor(private readonly options: RemoteMirrorOptions) {
    // Each followed kernel adds a listener.
    setMaxListeners(0, this.#over.signal);
    this.#gateway = new RemoteGateway(options.gateway, err =>
      options.log.error({ err }, 'the list of kernels of a machine cannot be read')
    );
    for (const kernelId of options.unfinished) this.#follow(kernelId);
    this.#watching = this.#watch();
  }

  /** Stops following; received records are on disk. Waits for running work. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await Promise.all([this.#watching, ...this.#following.values()]);
    this.#gateway[Symbol.dispose]();
  }

  /** Follows the list of kernels; reconnects after each loss of the socket. */
  async #watch(): Promise<void> {
    const { signal } = this.#over;
    for (let attempt = 0; !signal.aborted; attempt++) {
      const wasOpen = await this.#listen(signal);
      if (wasOpen) attempt = 0;
      await pause(retryMs(attempt), signal);
    }
  }

  /** Resolves after the socket has ended, with whether it had been open. */
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

  /** Invalid data is ignored: it lists no known kernels. */
  #take(data: unknown): void {
    for (const event of eventsOf(String(data))) {
      if (Value.Check(KernelEvent, event) && !event.removed) this.#follow(event.kernelId);
    }
  }

  #follow(kernelId: string): void {
    // The id becomes a folder name.
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
        // Our disk is full, or the stream is invalid: retry later; people's work is not affected.
        log.warn({ kernelId, err: error }, 'mirroring was interrupted');
        report({ state: 'behind', behindBytes: 0 });
        if (error instanceof FrequentRestartsError) {
          onLog(
            `the journal of kernel ${kernelId} is not copied for ${ORPHAN_AFTER_MS / 60_000} minutes: ${error.message}`
          );
          await pause(ORPHAN_AFTER_MS, signal);
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

/** Limit of new journals that the remote may begin for one kernel per minute. */
const RESTARTS = 3;
const ORPHAN_AFTER_MS = 10 * 60_000;

function eventsOf(text: string): readonly unknown[] {
  // Any other message from the remote lists no kernels.
  const { op, events } = (jsonIn(text) ?? {}) as { op?: unknown; events?: unknown };
  return op === 'events' && Array.isArray(events) ? events : [];
}

function retryMs(attempt: number): number {
  return Math.min(FIRST_RETRY_MS * 2 ** Math.min(attempt, 10), MAX_RETRY_MS);
}

/* Follows the journal of one kernel of a remote while the remote is reachable and the kernel lives. */

/** The remote begins new journals too often: the kernel is paused for a while. */
class FrequentRestartsError extends StreamError {}

/** `ended`: the copy is complete. `unknown`: the remote has neither the kernel nor a journal of it. */
type FollowEnd = 'ended' | 'unknown' | 'disconnected';

export interface FollowOptions {
  readonly gateway: RemoteGateway;
  readonly kernelId: string;
  readonly journal: MirroredJournal;
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** Shared by the kernels of the remote. */
  readonly budget: FrameBudget;
  readonly onProgress: (progress: { readonly behindBytes: number }) => void;
  /** Whether the remote may currently begin another journal for this kernel. */
  readonly mayRestart: () => boolean;
  /** After this time without a byte the connection counts as lost; the remote repeats its position more often than that. */
  readonly silenceMs?: number;
}

const SILENCE_MS = 35_000;

/** Rejects with a `StreamError` if the remote sends an invalid journal, and with the system's error if our disk fails. */
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
        if (!options.mayRestart())
          throw new FrequentRestartsError('the machine begins one journal after the other');
        const lastSeq = journal.nextSeq - 1;
        const aside = await journal.restart();
        log.warn(
          { kernelId, lastSeq, aside },
          'the machine has another journal; the copy of the old one was archived'
        );
      } else if (frame.note.kind === 'standing') {
        behindBytes = frame.note.behindBytes;
        // Documents only help to find the outputs later: a failure does not harm the records, and the next attempt retries
        // it.
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

/** Distinguishes a lost connection from a failure of our disk, which appears in the same loop. */
async function* guarded(response: Readable): AsyncGenerator<Buffer, void, void> {
  try {
    yield* response as AsyncIterable<Buffer>;
  } catch (cause) {
    if (cause instanceof StreamError) throw cause;
    throw new ConnectionLost('the connection was lost', { cause });
  }
}
