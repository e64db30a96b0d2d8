/** One remote: what is known of it, what a person can do with it, and what it tells of itself. */
import type {
  ConnectRemote,
  Remote as RemoteView,
  RemoteCheck,
  RemoteNotice,
  RemoteStage
} from '@tpulab/protocol';
import type { Logger } from 'pino';
import type { HostSetup, RemoteShell } from './contracts.js';
import type { Gcloud } from './gcloud/gcloud.js';
import type { NetworkWatch } from './network-watch.js';
import { Prompts } from './prompts.js';
import { told } from './remote-error.js';
import { RemoteLog } from './remote-log.js';
import { follow, type RemotePhase } from './remote-phase.js';
import { RemoteRun } from './remote-run.js';
import type { RemoteRecord } from './remote-store.js';
import { reachedBy } from './resolve-source.js';
import type { Askpass } from './ssh/askpass.js';

/** How the gateway of a remote is reached, for as long as it is. */
export interface ReachableRemote {
  readonly name: string;
  /** Unix socket on this machine. */
  readonly socketPath: string;
  readonly token: string;
  readonly gatewayId: string;
}

/** What all remotes of a gateway share. */
export interface RemoteContext {
  readonly sshProgram: string;
  /** Folder for sockets, for this user alone and with a short path, and who takes the questions of ssh. */
  readonly place: () => Promise<{ readonly runDir: string; readonly askpass: Askpass }>;
  readonly logDir: string;
  readonly gcloud: Gcloud;
  readonly setup: HostSetup;
  readonly installed: HostSetup;
  readonly network: NetworkWatch;
  readonly log: Logger;
  /** Where the mirror of its journals stands. */
  readonly mirror: (name: string) => RemoteView['mirror'];
  /** Something that people see has changed. */
  readonly changed: (remote: Remote) => void;
  readonly reachable: (remote: Remote, found: ReachableRemote | null) => void;
  /** The record has changed and is to be written down. */
  readonly save: () => void;
}

/** Progress of a download comes far more often than anybody can see. */
const TELL_MS = 50;
/** Here an attempt has its end. */
const ENDS: ReadonlySet<RemotePhase['kind']> = new Set(['connected', 'failed', 'preempted', 'disconnected']);

export class Remote {
  readonly log: RemoteLog;
  readonly prompts: Prompts;
  readonly context: RemoteContext;
  #record: RemoteRecord;
  #phase: RemotePhase = { kind: 'disconnected' };
  #stages: RemoteStage[] = [];
  #checks: RemoteCheck[] = [];
  #notice: RemoteNotice | null = null;
  #roundTripMs: number | null = null;
  #accelerator: RemoteView['accelerator'] = null;
  #reachable: ReachableRemote | null = null;
  #run: RemoteRun | null = null;
  #takesOver = false;
  #telling: NodeJS.Timeout | null = null;

  constructor(record: RemoteRecord, context: RemoteContext) {
    this.#record = record;
    this.context = context;
    this.log = new RemoteLog(context.logDir, record.name);
    this.prompts = new Prompts({
      host: record.source.kind === 'ssh' ? record.source.destination : record.source.name,
      onOpen: prompt => this.move({ kind: 'waiting', prompt }),
      onAnswered: () => {
        if (this.#phase.kind === 'waiting') this.move({ kind: 'connecting' });
      },
      hide: secret => this.log.hide(secret)
    });
  }

  get name(): string {
    return this.#record.name;
  }

  get record(): RemoteRecord {
    return this.#record;
  }

  get phase(): RemotePhase {
    return this.#phase;
  }

  get reachable(): ReachableRemote | null {
    return this.#reachable;
  }

  /**
   * Begins, or tries again at once. While it is connected or on its way it goes on so, unless something else is to be there than was:
   * then the host is made ready anew.
   */
  connect({ environment, install, reach, takeOver }: ConnectRemote = {}): void {
    const before = this.#record;
    this.change({
      wanted: true,
      ...(reach === undefined ? {} : { source: reachedBy(before.source, reach) }),
      ...(environment === undefined ? {} : { environment }),
      ...(install === undefined ? {} : { install })
    });
    if (takeOver === true) this.#takesOver = true;
    if (this.#run?.isOver !== false) this.#run = new RemoteRun(this);
    else {
      if (before.source !== this.#record.source) this.#run.reachAnew();
      if (before.environment !== this.#record.environment || before.install !== this.#record.install)
        this.#run.prepareAnew();
      else this.#run.wake();
    }
  }

  /** Whether a person insists, until the attempt has an end, that a gateway of another build ends for ours. */
  get takesOver(): boolean {
    return this.#takesOver;
  }

  /** For what is no longer reachable as it was: the gateway there refuses our token, or is another one. */
  renew(): void {
    this.#run?.renew();
  }

  /** Resolves when ssh has ended. */
  async disconnect(): Promise<void> {
    this.change({ wanted: false });
    await this.close();
    if (this.#phase.kind !== 'disconnected') this.move({ kind: 'disconnected' });
  }

  /** As `disconnect`, but the next gateway connects again. */
  async close(): Promise<void> {
    const run = this.#run;
    this.#run = null;
    this.prompts.forget();
    await run?.end();
    if (this.#telling) clearTimeout(this.#telling);
    this.#telling = null;
  }

  /** A connection to it, for as long as `use` takes: the one that stands, or one of its own. */
  withShell<T>(use: (shell: RemoteShell) => Promise<T>): Promise<T> | null {
    return this.#run?.withShell(use) ?? null;
  }

  view(): RemoteView {
    const { name, source, hosts, environment, install } = this.#record;
    const phase = this.#phase;
    return {
      name,
      source,
      hosts,
      environment,
      install,
      state: phase.kind,
      stages: this.#stages,
      checks: this.#checks,
      error: 'error' in phase ? phase.error : null,
      prompt: phase.kind === 'waiting' ? phase.prompt : null,
      notice: this.#notice,
      nextAttemptAt: phase.kind === 'reconnecting' ? phase.nextAttemptAt : null,
      connectedAt: phase.kind === 'connected' ? phase.since : null,
      roundTripMs: phase.kind === 'connected' ? this.#roundTripMs : null,
      accelerator: this.#accelerator,
      gatewayId: phase.kind === 'connected' ? phase.gatewayId : null,
      mirror: this.context.mirror(name)
    };
  }

  move(phase: RemotePhase): void {
    const before = this.#phase.kind;
    this.#phase = follow(this.#phase, phase);
    if (ENDS.has(phase.kind)) this.#takesOver = false;
    const error = 'error' in phase ? phase.error : null;
    if (before !== phase.kind) {
      this.log.add(error ? `${phase.kind}: ${error.message}` : phase.kind);
      this.context.log.info(
        { remote: this.name, from: before, to: phase.kind, code: error?.code },
        'remote changed its state'
      );
    }
    this.tell();
  }

  change(
    fields: Partial<
      Pick<RemoteRecord, 'wanted' | 'source' | 'hosts' | 'lastConnectedAt' | 'environment' | 'install'>
    >
  ): void {
    const next = { ...this.#record, ...fields };
    if (JSON.stringify(next) === JSON.stringify(this.#record)) return;
    this.#record = next;
    this.context.save();
    this.tell();
  }

  beginAttempt(): void {
    this.#stages = [];
    this.#checks = [];
    this.prompts.beginAttempt();
  }

  stage(stage: RemoteStage): void {
    const index = this.#stages.findIndex(({ name }) => name === stage.name);
    const before = this.#stages[index];
    if (before?.state !== stage.state) {
      this.log.add(`${stage.title}: ${stage.state}${stage.detail === null ? '' : ` (${stage.detail})`}`);
    }
    this.#stages = index < 0 ? [...this.#stages, stage] : this.#stages.with(index, stage);
    this.#tellSoon();
  }

  check(check: RemoteCheck): void {
    this.#checks = [...this.#checks.filter(({ name }) => name !== check.name), check];
    if (check.state !== 'ok') this.log.add(`${check.name}: ${check.message} ${check.remedy ?? ''}`.trim());
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

  /** null: not any more. */
  reach(found: ReachableRemote | null): void {
    if (this.#reachable === found) return;
    this.#reachable = found;
    this.context.reachable(this, found);
  }

  tell(): void {
    if (this.#telling) clearTimeout(this.#telling);
    this.#telling = null;
    this.context.changed(this);
  }

  /** Whether the cloud had said, when it was last heard of, that the machine is being taken back. */
  get isBeingTaken(): boolean {
    return this.#notice?.kind === 'preemption';
  }

  /** Why it is not reachable now, for whoever asked for something of it. */
  whyAway(): string {
    const phase = this.#phase;
    if ('error' in phase) return told(Object.assign(new Error(phase.error.message), phase.error)).message;
    return `its state is ${phase.kind}`;
  }

  #tellSoon(): void {
    this.#telling ??= setTimeout(() => this.tell(), TELL_MS).unref();
  }
}
