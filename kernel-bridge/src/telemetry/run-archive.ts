/**
 * Stores the runs of all kernels in files, so that a finished run can be opened long after its kernel has ended. One file per
 * run, written when it ends and every half minute while it runs; the oldest are removed.
 */
import { readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import {
  type DevicesMessage,
  MediaMessage,
  type RunLabels,
  StoredRun,
  storedRunKey,
  type StoredRunSummary
} from '@tpulab/protocol';
import type { Logger } from 'pino';
import { writeAtomically } from '@tpulab/platform/write-atomically.js';
import type { SourcedEvent } from './event-source.js';
import type { Notices } from './notices.js';
import { addToRun, newStoredRun, summaryOf } from './stored-run.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

export const MAX_RUNS = 200;
const WRITE_MS = 30_000;
/** Limit of events before the files have been read; only a flood exceeds it, and the steps' numbers compensate for that. */
const EARLY_EVENTS = 20_000;

const TOPICS: ReadonlySet<string> = new Set(['runs', 'steps', 'kernels', 'compile', 'devices']);
const RUN_MESSAGES: ReadonlySet<string> = new Set([
  'run',
  'steps',
  'figures',
  'media',
  'band',
  'control',
  'pace',
  'compile',
  'advice'
]);

const schema = TypeCompiler.Compile(StoredRun);
const media = TypeCompiler.Compile(MediaMessage);

interface RunEvents {
  listen(listener: (event: SourcedEvent) => void): Disposable;
}

interface RunArchiveOptions {
  readonly folder: string;
  readonly events: RunEvents;
  readonly log: Logger;
  /** The notebook of a kernel; null if it has none. */
  readonly documentOf?: (kernelId: string) => string | null;
  /** Notified of each end and each alert once, even when a replay repeats them. */
  readonly notices?: Pick<Notices, 'runEnded' | 'runAlert'> | undefined;
  readonly maxRuns?: number;
}

export class RunArchive implements AsyncDisposable {
  readonly #summaries = new Map<string, StoredRunSummary>();
  /** Running runs, and ended ones that are not written yet. */
  readonly #open = new Map<string, StoredRun>();
  readonly #dirty = new Set<string>();
  /** The hardware of each kernel. */
  readonly #machines = new Map<string, string>();
  readonly #listening: Disposable;
  readonly #ready: Promise<void>;
  readonly #timer: NodeJS.Timeout;
  #early: SourcedEvent[] | null = [];
  #writing: Promise<void> = Promise.resolve();
  #isRefused = false;

  constructor(private readonly options: RunArchiveOptions) {
    this.#listening = options.events.listen(event => this.#receive(event));
    this.#ready = this.#load();
    this.#timer = setInterval(() => void this.write(), WRITE_MS);
    this.#timer.unref();
  }

  /** Newest first. */
  async list(): Promise<StoredRunSummary[]> {
    await this.#ready;
    for (const stored of this.#open.values()) this.#summaries.set(stored.key, summaryOf(stored));
    return [...this.#summaries.values()].sort((a, b) => b.startedAt - a.startedAt);
  }

  /** Null for a run that is not stored, or whose file cannot be read. */
  async read(key: string): Promise<StoredRun | null> {
    await this.#ready;
    return this.#open.get(key) ?? (this.#summaries.has(key) ? await this.#readFile(key) : null);
  }

  /** A picture, sound or text with its data. Null if it is not stored. */
  async medium(key: string, id: number): Promise<MediaMessage | null> {
    await this.#ready;
    if (!this.#isKnown(key)) return null;
    const value = jsonIn(await readFile(this.#mediumOf(key, id), 'utf8').catch(() => ''));
    return media.Check(value) ? value : null;
  }

  /** Sets a user's labels for a run. Null for a run that is not stored, or whose file cannot be read. */
  async label(key: string, labels: RunLabels): Promise<StoredRunSummary | null> {
    const stored = await this.read(key);
    if (!stored) return null;
    stored.labels = { ...stored.labels, ...labels };
    // An event may have opened the run while its file was read.
    const open = this.#open.get(key);
    if (open) open.labels = stored.labels;
    else this.#open.set(key, stored);
    this.#dirty.add(key);
    await this.write();
    return summaryOf(stored);
  }

  /** Ends the runs of kernels that are no longer known, as after a reboot. */
  async endMissing(isKnown: (kernelId: string) => Promise<boolean>): Promise<void> {
    await this.#ready;
    const kernels = new Set([...this.#open.values()].map(({ kernelId }) => kernelId));
    for (const kernelId of kernels)
      if (!(await isKnown(kernelId))) this.#interrupt(kernelId, 'while the server was down');
  }

  /** Resolves when all changes are on the disk, or could not be written. */
  write(): Promise<void> {
    return (this.#writing = this.#writing.then(() => this.#write()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.#listening[Symbol.dispose]();
    await this.#ready;
    await this.write();
  }

  #receive(event: SourcedEvent): void {
    if (!TOPICS.has(event.topic) || event.kernelId === null) return;
    if (this.#early) {
      if (this.#early.length < EARLY_EVENTS) this.#early.push(event);
      return;
    }
    this.#apply(event);
  }

  #apply(event: SourcedEvent): void {
    // The event was checked against the protocol before it was sent.
    const parsed = JSON.parse(event.json) as {
      data?: { type: string; run?: string | null };
      removed?: boolean;
      executionState?: string;
      reason?: string | null;
    };
    if (event.topic === 'kernels') {
      if (
        parsed.removed === true ||
        parsed.executionState === 'dead' ||
        parsed.executionState === 'restarting'
      )
        this.#interrupt(event.kernelId, parsed.removed === true ? 'shut down' : (parsed.reason ?? null));
      if (parsed.removed === true && event.kernelId !== null) this.#machines.delete(event.kernelId);
      return;
    }
    const { data } = parsed;
    if (!data || event.kernelId === null) return;
    if (data.type === 'devices') this.#runsOn(event.kernelId, machineText(data as unknown as DevicesMessage));
    if (!RUN_MESSAGES.has(data.type) || typeof data.run !== 'string') return;
    const message = data as Parameters<typeof addToRun>[1];
    // A refused command may name a run that never existed.
    const isRefusal = message.type === 'control' && message.phase === 'refused';
    if (isRefusal && !this.#isKnown(storedRunKey(event.kernelId, data.run))) return;
    const stored = this.#openRun(event.kernelId, data.run, message.time);
    if (!stored) return;
    const wasRunning = stored.state === 'running';
    const before = event.medium ? (stored.media ?? []).map(({ id }) => id) : [];
    const isNew = addToRun(stored, message);
    this.#dirty.add(stored.key);
    if (event.medium) this.#storeMedium(stored, event.medium, before);
    if (!isNew) return;
    if (message.type === 'advice') this.options.notices?.runAlert(summaryOf(stored), message);
    else if (wasRunning) this.options.notices?.runEnded(summaryOf(stored), null);
    void this.write();
  }

  /** Null for a replayed message of a run that ended and was written. A run that continues after its end is reopened. */
  #openRun(kernelId: string, run: string, time: number): StoredRun | null {
    const key = storedRunKey(kernelId, run);
    let stored = this.#open.get(key);
    if (stored) return stored;
    const previous = this.#summaries.get(key);
    if (previous && previous.lastAt >= time) return null;
    stored = (previous && this.#reread(key)) ?? newStoredRun(kernelId, run, time);
    const machine = stored.machine ?? this.#machines.get(kernelId);
    if (machine !== undefined) stored.machine = machine;
    const document = this.options.documentOf?.(kernelId) ?? stored.document;
    if (document !== undefined) stored.document = document;
    this.#open.set(key, stored);
    return stored;
  }

  /** @param before the media stored before, one of which may have been dropped */
  #storeMedium({ key, media: refs = [] }: StoredRun, medium: MediaMessage, before: readonly number[]): void {
    const ids = new Set(refs.map(({ id }) => id));
    this.#writing = this.#writing.then(async () => {
      for (const id of before) if (!ids.has(id)) await rm(this.#mediumOf(key, id), { force: true });
      if (!ids.has(medium.id)) return;
      await mkdir(path.dirname(this.#mediumOf(key, medium.id)), { recursive: true, mode: 0o700 });
      await writeAtomically(this.#mediumOf(key, medium.id), JSON.stringify(medium));
    });
    this.#writing = this.#writing.catch((error: unknown) =>
      this.options.log.warn({ err: error, key }, 'a picture cannot be kept')
    );
  }

  #mediumOf(key: string, id: number): string {
    return path.join(this.options.folder, `${key}.media`, `${id}.json`);
  }

  #isKnown(key: string): boolean {
    return this.#open.has(key) || this.#summaries.has(key);
  }

  /** Sets the hardware of runs that started before their kernel's devices were known. */
  #runsOn(kernelId: string, machine: string): void {
    if (this.#machines.get(kernelId) === machine) return;
    this.#machines.set(kernelId, machine);
    for (const stored of this.#open.values())
      if (stored.kernelId === kernelId && stored.state === 'running') stored.machine = machine;
  }

  #interrupt(kernelId: string | null, reason: string | null): void {
    for (const stored of this.#open.values()) {
      if (stored.kernelId === kernelId && stored.state === 'running') {
        stored.state = 'interrupted';
        this.#dirty.add(stored.key);
        this.options.notices?.runEnded(summaryOf(stored), reason);
      }
    }
    if (this.#dirty.size > 0) void this.write();
  }

  async #load(): Promise<void> {
    const { folder, log } = this.options;
    const names = (await readdir(folder).catch((): string[] => [])).filter(name => name.endsWith('.json'));
    for (const name of names) {
      const stored = await this.#readFile(name.slice(0, -'.json'.length));
      if (!stored) {
        log.warn({ file: name }, 'a kept run cannot be read and is left out');
        continue;
      }
      this.#summaries.set(stored.key, summaryOf(stored));
      // The kernel may continue, and with it the run.
      if (stored.state === 'running') this.#open.set(stored.key, stored);
    }
    const early = this.#early ?? [];
    this.#early = null;
    for (const event of early) this.#apply(event);
  }

  async #readFile(key: string): Promise<StoredRun | null> {
    const text = await readFile(this.#fileOf(key), 'utf8').catch(() => null);
    return text === null ? null : parseStored(text);
  }

  /** Read synchronously, because the next message of the run follows immediately. */
  #reread(key: string): StoredRun | null {
    try {
      return parseStored(readFileSync(this.#fileOf(key), 'utf8'));
    } catch {
      return null;
    }
  }

  #fileOf(key: string): string {
    return path.join(this.options.folder, `${key}.json`);
  }

  async #write(): Promise<void> {
    const { folder, log } = this.options;
    for (const key of [...this.#dirty]) {
      const stored = this.#open.get(key);
      this.#dirty.delete(key);
      if (!stored) continue;
      this.#summaries.set(key, summaryOf(stored));
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 });
        await writeAtomically(this.#fileOf(key), JSON.stringify(stored));
        this.#isRefused = false;
        if (stored.state !== 'running' && !this.#dirty.has(key)) this.#open.delete(key);
      } catch (error) {
        this.#dirty.add(key);
        if (!this.#isRefused) log.warn({ err: error }, 'runs cannot be kept');
        this.#isRefused = true;
        return;
      }
    }
    await this.#trim();
  }

  async #trim(): Promise<void> {
    const { maxRuns = MAX_RUNS } = this.options;
    const surplus = this.#summaries.size - maxRuns;
    if (surplus <= 0) return;
    const ended = [...this.#summaries.values()].filter(({ key }) => !this.#open.has(key));
    for (const { key } of inDeletionOrder(ended).slice(0, surplus)) {
      this.#summaries.delete(key);
      await rm(this.#fileOf(key), { force: true });
      await rm(path.dirname(this.#mediumOf(key, 0)), { force: true, recursive: true });
    }
  }
}

function parseStored(text: string): StoredRun | null {
  const value = jsonIn(text);
  return schema.Check(value) ? value : null;
}

/** For example `TPU v5 lite × 8`. */
function machineText({ platform, devices }: DevicesMessage): string {
  const [first] = devices;
  return `${first && platform !== 'cpu' ? first.kind : platform.toUpperCase()}${devices.length > 1 ? ` × ${devices.length}` : ''}`;
}

/**
 * The order of removal: first runs of the kernel with the most runs, so that a sweep, or the loops of one notebook, remove
 * no runs of another; within one kernel, plain loops before runs with a configuration, and the oldest first.
 */
function inDeletionOrder(runs: readonly StoredRunSummary[]): StoredRunSummary[] {
  const byKernel = new Map<string, StoredRunSummary[]>();
  for (const run of runs) byKernel.set(run.kernelId, [...(byKernel.get(run.kernelId) ?? []), run]);
  const places = [...byKernel.values()].flatMap(mine =>
    mine
      .sort((a, b) => Number(isPlain(b)) - Number(isPlain(a)) || a.lastAt - b.lastAt)
      .map((run, at) => ({ run, left: mine.length - at }))
  );
  return places.sort((a, b) => b.left - a.left || a.run.lastAt - b.run.lastAt).map(({ run }) => run);
}

/** A loop that was only measured, such as an evaluation, and has no labels. */
function isPlain({ config, labels }: StoredRunSummary): boolean {
  return Object.keys(config).length === 0 && labels === undefined;
}
