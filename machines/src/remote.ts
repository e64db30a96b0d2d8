/** One remote: its record and state, the actions of a person, and its reports. */
import path from 'node:path';
import type { ConnectRemote, Remote as RemoteView, RemoteSsh } from '@tpulab/protocol';
import { bridgeError } from '@tpulab/platform/errors.js';
import type { ReachableRemote, RemoteShell } from './machine.js';
import type { ColabAccount } from './colab/colab-account.js';
import { ColabRuntime } from './colab/colab-runtime.js';
import { Prompts } from './prompts.js';
import { remoteErrorOf } from './remote-error.js';
import { follow, RemoteLog, type RemotePhase, RemoteReport } from './remote-report.js';
import { RemoteConnection } from './connection.js';
import type { ConnectionContext, ConnectionOwner } from './open-machine.js';
import { type RemoteRecord, sourceName } from './remote-store.js';
import { reachedBy } from './resolve-source.js';
import type { SshTarget } from './ssh/ssh-config.js';

export interface RemoteContext extends ConnectionContext {
  readonly colab: ColabAccount;
  /** Interval between two checks of the remaining balance. */
  readonly colabBalanceMs?: number;
  /** Folder for Colab session data, with one folder for each remote. */
  readonly colabDir: string;
  readonly mirror: (name: string) => RemoteView['mirror'];
  /** Called when the visible state has changed. */
  readonly changed: (remote: Remote) => void;
  readonly reachable: (remote: Remote, found: ReachableRemote | null) => void;
  /** Called when the record has changed and must be saved. */
  readonly save: () => void;
}

/** An attempt ends in one of these phases. */
const ENDS: ReadonlySet<RemotePhase['kind']> = new Set(['connected', 'failed', 'preempted', 'disconnected']);

export class Remote implements ConnectionOwner {
  readonly log: RemoteLog;
  readonly report: RemoteReport;
  readonly prompts: Prompts;
  readonly context: RemoteContext;
  /** For a source that the `colab` command creates and ends; null: another source. */
  readonly colab: ColabRuntime | null;
  #record: RemoteRecord;
  #phase: RemotePhase = { kind: 'disconnected' };
  #reachable: ReachableRemote | null = null;
  #connection: RemoteConnection | null = null;
  #takesOver = false;
  #addsKey = false;

  constructor(record: RemoteRecord, context: RemoteContext) {
    this.#record = record;
    this.context = context;
    const { source } = record;
    this.colab =
      source.kind !== 'colab'
        ? null
        : new ColabRuntime({
            accelerator: source.accelerator,
            account: context.colab,
            ...(context.colabBalanceMs === undefined ? {} : { balanceMs: context.colabBalanceMs }),
            folder: path.join(context.colabDir, record.name)
          });
    this.log = new RemoteLog(context.logDir, record.name);
    this.report = new RemoteReport(this.log, () => context.changed(this));
    this.prompts = new Prompts({
      host: record.source.kind === 'ssh' ? record.source.destination : sourceName(record.source),
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
   * Connects, or retries immediately. A remote that is connected or connecting continues, unless the wanted setup has
   * changed: then the host is made ready again.
   */
  connect({ environment, install, reach, hostOnly, takeOver, addKey }: ConnectRemote = {}): void {
    const before = this.#record;
    this.change({
      wanted: true,
      ...(reach === undefined ? {} : { source: reachedBy(before.source, reach) }),
      ...(hostOnly === undefined ? {} : { hostOnly }),
      ...(environment === undefined ? {} : { environment }),
      ...(install === undefined ? {} : { install })
    });
    // The last target belongs to another access path.
    if (before.source !== this.#record.source) this.change({ targets: [] });
    if (takeOver === true) this.#takesOver = true;
    if (addKey === true) this.#addsKey = true;
    if (this.#connection?.isOver !== false) this.#connection = new RemoteConnection(this);
    else {
      // The caller sees that the machine is being looked up.
      if (this.#phase.kind === 'preempted') this.move({ kind: 'connecting' });
      if (before.source !== this.#record.source) this.#connection.relocate();
      const isSame = (['environment', 'install', 'hostOnly'] as const).every(
        key => before[key] === this.#record[key]
      );
      if (!isSame || this.#connection.lacksHosts) this.#connection.reprepare();
      else this.#connection.wake();
    }
  }

  /** Fails without an attempt. */
  fail(error: unknown): void {
    this.move({ kind: 'connecting' });
    this.move({ kind: 'failed', error: remoteErrorOf(error) });
  }

  /** Whether a person confirmed, until the attempt ends, that our gateway replaces a gateway of another build. */
  get takesOver(): boolean {
    return this.#takesOver;
  }

  /** Whether a person wants gcloud to add the key before the next login; true once per request. */
  consumeKeyRequest(): boolean {
    const isWanted = this.#addsKey;
    this.#addsKey = false;
    return isWanted;
  }

  /** Called when the gateway of the remote has changed: it refuses our token, or is another gateway. */
  renew(): void {
    this.#connection?.renew();
  }

  /** Resolves after ssh has ended. */
  async disconnect(): Promise<void> {
    this.change({ wanted: false });
    await this.close();
    this.colab?.withdraw();
    if (this.#phase.kind !== 'disconnected') this.move({ kind: 'disconnected' });
  }

  /**
   * Disconnects, and ends the machine with everything on it; resolves once the machine has certainly ended.
   *
   * @throws BridgeError `invalid_request` if it is not ours to end; RemoteProblem
   */
  async stop(signal: AbortSignal): Promise<void> {
    if (!this.colab) {
      throw bridgeError(
        'invalid_request',
        `Only Colab runtimes can be ended from here; ${this.name} keeps running until you stop it yourself.`
      );
    }
    await this.disconnect();
    await this.colab.stop(signal);
    this.log.add('the Colab runtime has ended');
  }

  /** Like `disconnect`, but the next gateway connects again. */
  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = null;
    this.prompts.forget();
    await connection?.end();
    this.report[Symbol.dispose]();
  }

  /** A connection to the host while `use` runs: the open one, or a separate one. */
  withShell<T>(use: (shell: RemoteShell) => Promise<T>): Promise<T> | null {
    return this.#connection?.withShell(use) ?? null;
  }

  /** null without a connection. */
  get ssh(): RemoteSsh | null {
    return this.#connection?.ssh ?? null;
  }

  view(): RemoteView {
    return this.report.view(this.#record, this.#phase, this.context.mirror(this.name));
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
    this.report.notify();
  }

  change(fields: Partial<Omit<RemoteRecord, 'name' | 'sender'>>): void {
    const next = { ...this.#record, ...fields };
    if (JSON.stringify(next) === JSON.stringify(this.#record)) return;
    this.#record = next;
    this.context.save();
    this.report.notify();
  }

  beginAttempt(): void {
    this.report.beginAttempt();
    this.prompts.beginAttempt();
  }

  located(hosts: readonly string[]): void {
    this.#reportIfFound();
    this.change({ hosts: [...hosts] });
  }

  loggedIn(targets: readonly SshTarget[]): void {
    // This includes the case in which Google Cloud could not be queried, and the last known address was used.
    this.#reportIfFound();
    // The target of a Colab runtime is looked up each time.
    if (this.#record.source.kind !== 'gcloud') return;
    this.change({
      targets: targets.map(({ destination, options }) => ({ destination, options: [...options] }))
    });
  }

  /** null: no longer reachable. */
  reach(found: ReachableRemote | null): void {
    if (this.#reachable === found) return;
    this.#reachable = found;
    this.context.reachable(this, found);
  }

  /** Why the remote is not reachable now, for a caller that needs it. */
  unreachableReason(): string {
    const phase = this.#phase;
    if (phase.kind === 'queued') return `Google Cloud has not provisioned it yet (${phase.queue.state})`;
    if ('error' in phase)
      return remoteErrorOf(Object.assign(new Error(phase.error.message), phase.error)).message;
    return `its state is ${phase.kind}`;
  }

  /** While a machine is being looked up, its phase says so until it is found. */
  #reportIfFound(): void {
    if (this.#phase.kind === 'queued' || this.#phase.kind === 'preempted') this.move({ kind: 'connecting' });
  }
}
