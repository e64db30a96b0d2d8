/**
 * Mirrors the kernels of one remote while it can be reached: those that its gateway lists, and those that are here in part from
 * an earlier time. One stream for each kernel, taken up again where it was lost.
 */
import { setMaxListeners } from 'node:events';
import { Value } from '@sinclair/typebox/value';
import { KernelEvent } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { RemoteGateway } from '../remote-gateway.js';
import { followJournal, RestartStorm } from './kernel-mirror.js';
import type { MirrorBudget } from './mirror-budget.js';
import { MirroredJournal } from './mirrored-journal.js';
import { FrameBudget } from './stream-frames.js';
import { pause } from '../../platform/waiting.js';

export interface RemoteMirrorOptions {
  /** How its gateway is reached. */
  readonly gateway: ConstructorParameters<typeof RemoteGateway>[0];
  /** Kernels that are here in part. */
  readonly unfinished: readonly string[];
  /** Of all its kernels, kept beyond this connection. */
  readonly space: MirrorBudget;
  /** Kernels that have a folder here, kept beyond this connection. */
  readonly known: Set<string>;
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
  readonly #options: RemoteMirrorOptions;
  readonly #gateway: RemoteGateway;
  readonly #over = new AbortController();
  readonly #following = new Map<string, Promise<void>>();
  readonly #waiting = new Set<string>();
  readonly #budget = new FrameBudget();
  readonly #watching: Promise<void>;

  constructor(options: RemoteMirrorOptions) {
    this.#options = options;
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

  /** The list of kernels, as it changes; asked for anew whenever the socket is lost. */
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
    const { known } = this.#options;
    if (known.size >= MAX_KERNELS && !known.has(kernelId)) return;
    known.add(kernelId);
    if (this.#following.size >= MAX_FOLLOWED) {
      this.#waiting.add(kernelId);
      return;
    }
    const followed = this.#run(kernelId)
      .catch((error: unknown) => {
        this.#options.log.error(
          { kernelId, err: error },
          'the journal of a remote kernel cannot be mirrored'
        );
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
    const { restarts } = this.#options;
    const now = performance.now();
    const recent = (restarts.get(kernelId) ?? []).filter(at => now - at < 60_000);
    if (recent.length >= RESTARTS) return false;
    restarts.set(kernelId, [...recent, now]);
    return true;
  }

  async #run(kernelId: string): Promise<void> {
    const { log, onProgress, onLog, silenceMs, space } = this.#options;
    const { signal } = this.#over;
    for (let attempt = 0; !signal.aborted; attempt++) {
      const tell = (progress: KernelProgress): void => onProgress(kernelId, progress);
      try {
        await using journal = await MirroredJournal.open(this.#options.folderOf(kernelId), space);
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
          onProgress: ({ behindBytes }) => tell({ state: 'following', behindBytes })
        });
        if (end !== 'disconnected') {
          tell({ state: end, behindBytes: 0 });
          return;
        }
        if (journal.nextSeq > before) attempt = 0;
      } catch (error) {
        // A full disk of ours, or a stream that is not one: later, and without harm to what people do meanwhile.
        log.warn({ kernelId, err: error }, 'mirroring was interrupted');
        tell({ state: 'behind', behindBytes: 0 });
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
      tell({ state: 'behind', behindBytes: 0 });
      await pause(retryMs(attempt), signal);
    }
  }
}

/** How often the remote may begin another journal for one kernel in a minute. */
const RESTARTS = 3;
const LEFT_ALONE_MS = 10 * 60_000;

function eventsOf(text: string): readonly unknown[] {
  try {
    const { op, events } = (JSON.parse(text) ?? {}) as { op?: unknown; events?: unknown };
    return op === 'events' && Array.isArray(events) ? events : [];
  } catch {
    return []; // a remote that speaks otherwise has no kernels for us
  }
}

function retryMs(attempt: number): number {
  return Math.min(FIRST_RETRY_MS * 2 ** Math.min(attempt, 10), LONGEST_RETRY_MS);
}
