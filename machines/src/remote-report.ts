/** The report of a remote: the progress of connecting, the host's properties, and the reports of its gateway. */
import type {
  Remote as RemoteView,
  RemoteCheck,
  RemoteError,
  RemoteLogLine,
  RemoteNotice,
  RemotePrompt,
  RemoteQueue,
  RemoteStage,
  RemoteState
} from '@tpulab/protocol';
import { plainLines, plainText, plainValue } from '@tpulab/platform/plain-text.js';
import type { RemoteRecord } from './remote-store.js';
import { appendFileSync, mkdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';

/** Download progress arrives far more often than a person can see. */
const NOTIFY_MS = 50;

export class RemoteReport implements Disposable {
  readonly #stages = new StageList();
  #checks: RemoteCheck[] = [];
  #notice: RemoteNotice | null = null;
  #roundTripMs: number | null = null;
  #accelerator: RemoteView['accelerator'] = null;
  #notifying: NodeJS.Timeout | null = null;

  /** @param changed called when the visible state changes */
  constructor(
    private readonly log: Pick<RemoteLog, 'add'>,
    private readonly changed: () => void
  ) {}

  view(record: RemoteRecord, phase: RemotePhase, mirror: RemoteView['mirror']): RemoteView {
    const { name, source, hosts, environment, install, hostOnly = false } = record;
    // Many of these values come from the machine itself.
    const view = plainValue({
      name,
      source,
      hosts,
      environment,
      install,
      hostOnly,
      state: phase.kind,
      stages: this.#stages.all,
      checks: this.#checks,
      error: 'error' in phase ? phase.error : null,
      prompt: null,
      notice: this.#notice,
      queue: phase.kind === 'queued' ? phase.queue : null,
      nextAttemptAt: 'nextAttemptAt' in phase ? phase.nextAttemptAt : null,
      connectedAt: phase.kind === 'connected' ? phase.since : null,
      lastConnectedAt: record.lastConnectedAt,
      roundTripMs: phase.kind === 'connected' ? this.#roundTripMs : null,
      accelerator: this.#accelerator,
      gatewayId: phase.kind === 'connected' ? phase.gatewayId : null,
      mirror
    });
    const prompt = phase.kind === 'waiting' ? phase.prompt : null;
    return { ...view, prompt: prompt && { ...prompt, text: plainLines(prompt.text) } };
  }

  beginAttempt(): void {
    this.#stages.clear();
    this.#checks = [];
  }

  stage(stage: RemoteStage): void {
    if (this.#stages.put(stage)) {
      this.log.add(`${stage.title}: ${stage.state}${stage.detail === null ? '' : ` (${stage.detail})`}`);
    }
    this.#notifySoon();
  }

  check(check: RemoteCheck): void {
    this.#checks = [...this.#checks.filter(({ name }) => name !== check.name), check];
    if (check.state !== 'ok') this.log.add(`${check.name}: ${check.message} ${check.remedy ?? ''}`.trim());
    this.#notifySoon();
  }

  beat(roundTripMs: number, notice: RemoteNotice | null): void {
    this.#roundTripMs = Math.round(roundTripMs * 10) / 10;
    this.#notice = notice;
    this.notify();
  }

  accelerator(found: RemoteView['accelerator']): void {
    this.#accelerator = found;
    this.notify();
  }

  /** Whether the cloud's last notice announced that the machine is being preempted. */
  get isBeingPreempted(): boolean {
    return this.#notice?.kind === 'preemption';
  }

  notify(): void {
    this[Symbol.dispose]();
    this.changed();
  }

  /** No notification is sent after this. */
  [Symbol.dispose](): void {
    if (this.#notifying) clearTimeout(this.#notifying);
    this.#notifying = null;
  }

  #notifySoon(): void {
    this.#notifying ??= setTimeout(() => this.notify(), NOTIFY_MS).unref();
  }
}

/** The stages of one attempt to connect, in the order of their start, with the duration of each. */
export class StageList {
  #all: readonly RemoteStage[] = [];
  /** By name. */
  readonly #begunAt = new Map<string, number>();

  /** @param now in milliseconds, with an arbitrary origin */
  constructor(private readonly now: () => number = () => performance.now()) {}

  get all(): RemoteStage[] {
    return [...this.#all];
  }

  clear(): void {
    this.#all = [];
    this.#begunAt.clear();
  }

  /** Whether the state of the stage has changed. */
  put(stage: RemoteStage): boolean {
    const index = this.#all.findIndex(({ name }) => name === stage.name);
    const timed = this.#timed(stage);
    const before = this.#all[index];
    this.#all = before ? this.#all.with(index, timed) : [...this.#all, timed];
    return before?.state !== stage.state;
  }

  #timed(stage: RemoteStage): RemoteStage {
    const begunAt = this.#begunAt.get(stage.name);
    if (stage.state === 'running') {
      this.#begunAt.set(stage.name, begunAt ?? this.now());
      return stage;
    }
    return begunAt === undefined ? stage : { ...stage, durationMs: Math.round(this.now() - begunAt) };
  }
}

export type RemotePhase =
  | { readonly kind: 'disconnected' }
  | { readonly kind: 'connecting' }
  /** A question of ssh, or, after ssh has given up, a question for the next attempt. */
  | { readonly kind: 'waiting'; readonly prompt: RemotePrompt }
  | { readonly kind: 'setting-up' }
  | { readonly kind: 'connected'; readonly since: number; readonly gatewayId: string }
  | { readonly kind: 'reconnecting'; readonly error: RemoteError; readonly nextAttemptAt: number }
  /** Polled again at `nextAttemptAt`; null: now. */
  | { readonly kind: 'queued'; readonly queue: RemoteQueue; readonly nextAttemptAt: number | null }
  | { readonly kind: 'failed'; readonly error: RemoteError }
  | { readonly kind: 'preempted'; readonly error: RemoteError };

/** The possible next states of each state. A person can end every state, so `disconnected` is always possible. */
const NEXT: Readonly<Record<RemoteState, readonly RemoteState[]>> = {
  disconnected: ['connecting'],
  connecting: [
    'waiting',
    'setting-up',
    'connected',
    'reconnecting',
    'queued',
    'failed',
    'preempted',
    'disconnected'
  ],
  waiting: ['connecting', 'waiting', 'reconnecting', 'queued', 'failed', 'preempted', 'disconnected'],
  'setting-up': ['connected', 'connecting', 'waiting', 'reconnecting', 'failed', 'preempted', 'disconnected'],
  connected: ['reconnecting', 'connecting', 'failed', 'preempted', 'disconnected'],
  reconnecting: ['connecting', 'reconnecting', 'queued', 'failed', 'preempted', 'disconnected'],
  // Polling does not leave this state, so that the display does not flicker during hours of waiting.
  queued: ['connecting', 'waiting', 'queued', 'reconnecting', 'failed', 'preempted', 'disconnected'],
  failed: ['connecting', 'disconnected'],
  // Polling does not leave this state until another machine has its name.
  preempted: ['connecting', 'waiting', 'queued', 'reconnecting', 'failed', 'preempted', 'disconnected']
};

export function canFollow(from: RemoteState, to: RemoteState): boolean {
  return NEXT[from].includes(to);
}

/** The phase after `from`; a transition that is not in the table is a mistake in the program. */
export function follow(from: RemotePhase, to: RemotePhase): RemotePhase {
  if (!canFollow(from.kind, to.kind)) {
    throw new TypeError(`a machine cannot go from ${from.kind} to ${to.kind}`);
  }
  return to;
}

const MAX_LINES = 1_000;
const LINE_CHARACTERS = 2_000;
/** A larger file is renamed to NAME.log.1 and replaces the older one. */
const FILE_BYTES = 4 * 1024 * 1024;

/** The events of one remote, for people: the last lines in memory, and a file. Secrets are removed. */
export class RemoteLog {
  readonly #file: string;
  readonly #lines: RemoteLogLine[] = [];
  readonly #secrets = new Set<string>();

  constructor(folder: string, name: string) {
    this.#file = path.join(folder, `${name}.log`);
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      this.#lines.push(...earlier(this.#file));
    } catch {
      // A failure of the log must not stop a remote.
    }
  }

  /** Removes this text from every further line, whatever its source. */
  hide(secret: string): void {
    if (secret.length >= 4) this.#secrets.add(secret);
  }

  add(text: string): void {
    const line: RemoteLogLine = { at: Date.now(), text: this.#clean(text) };
    this.#lines.push(line);
    if (this.#lines.length > MAX_LINES) this.#lines.splice(0, this.#lines.length - MAX_LINES);
    try {
      appendFileSync(this.#file, `${new Date(line.at).toISOString()} ${line.text}\n`, { mode: 0o600 });
      if (statSync(this.#file).size > FILE_BYTES) renameSync(this.#file, `${this.#file}.1`);
    } catch {
      // As above; the lines in memory are still available.
    }
  }

  lines(): readonly RemoteLogLine[] {
    return this.#lines;
  }

  #clean(text: string): string {
    let clean = plainText(text, LINE_CHARACTERS);
    for (const secret of this.#secrets) clean = clean.replaceAll(secret, '[secret]');
    return clean
      .replace(/([?&]token=)[^&\s"']+/gi, '$1[token]')
      .replace(/\b(token|bearer)(["']?\s*[:=]?\s*["']?)[\x21-\x7e]{16,}/gi, '$1$2[token]');
  }
}

function earlier(file: string): RemoteLogLine[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return [];
  }
  return text
    .split('\n')
    .slice(-MAX_LINES)
    .flatMap(line => {
      const at = Date.parse(line.slice(0, 24));
      return Number.isNaN(at) ? [] : [{ at, text: line.slice(25) }];
    });
}
