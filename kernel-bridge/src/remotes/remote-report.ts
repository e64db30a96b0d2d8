/** What a remote tells of itself: how the attempt to connect goes, what was found there, and what its gateway says. */
import type { Remote as RemoteView, RemoteCheck, RemoteNotice, RemoteStage } from '@tpulab/protocol';
import { plainLines, plainValue } from '../platform/plain-text.js';
import type { RemoteLog } from './remote-log.js';
import type { RemotePhase } from './remote-phase.js';
import type { RemoteRecord } from './remote-store.js';

/** Progress of a download comes far more often than anybody can see. */
const TELL_MS = 50;

export class RemoteReport implements Disposable {
  readonly #log: Pick<RemoteLog, 'add'>;
  readonly #changed: () => void;
  readonly #stages = new StageList();
  #checks: RemoteCheck[] = [];
  #notice: RemoteNotice | null = null;
  #roundTripMs: number | null = null;
  #accelerator: RemoteView['accelerator'] = null;
  #telling: NodeJS.Timeout | null = null;

  /** @param changed something that people see is another than before */
  constructor(log: Pick<RemoteLog, 'add'>, changed: () => void) {
    this.#log = log;
    this.#changed = changed;
  }

  view(record: RemoteRecord, phase: RemotePhase, mirror: RemoteView['mirror']): RemoteView {
    const { name, source, hosts, environment, install, hostOnly = false } = record;
    // Much of it is what the machine says of itself.
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
      this.#log.add(`${stage.title}: ${stage.state}${stage.detail === null ? '' : ` (${stage.detail})`}`);
    }
    this.#tellSoon();
  }

  check(check: RemoteCheck): void {
    this.#checks = [...this.#checks.filter(({ name }) => name !== check.name), check];
    if (check.state !== 'ok') this.#log.add(`${check.name}: ${check.message} ${check.remedy ?? ''}`.trim());
    this.#tellSoon();
  }

  beat(roundTripMs: number, notice: RemoteNotice | null): void {
    this.#roundTripMs = Math.round(roundTripMs * 10) / 10;
    this.#notice = notice;
    this.tell();
  }

  accelerator(found: RemoteView['accelerator']): void {
    this.#accelerator = found;
    this.tell();
  }

  /** Whether the cloud had said, when it was last heard of, that the machine is being taken back. */
  get isBeingTaken(): boolean {
    return this.#notice?.kind === 'preemption';
  }

  tell(): void {
    this[Symbol.dispose]();
    this.#changed();
  }

  /** Nothing is told later on. */
  [Symbol.dispose](): void {
    if (this.#telling) clearTimeout(this.#telling);
    this.#telling = null;
  }

  #tellSoon(): void {
    this.#telling ??= setTimeout(() => this.tell(), TELL_MS).unref();
  }
}

/** The stages of one attempt to connect, in the order in which they began, with how long each has taken. */
export class StageList {
  #all: readonly RemoteStage[] = [];
  /** By name. */
  readonly #begunAt = new Map<string, number>();
  readonly #now: () => number;

  /** @param now in milliseconds, from any moment on */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  get all(): RemoteStage[] {
    return [...this.#all];
  }

  clear(): void {
    this.#all = [];
    this.#begunAt.clear();
  }

  /** Whether the stage is in another state than before. */
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
      this.#begunAt.set(stage.name, begunAt ?? this.#now());
      return stage;
    }
    return begunAt === undefined ? stage : { ...stage, durationMs: Math.round(this.#now() - begunAt) };
  }
}
