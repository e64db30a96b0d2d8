/** Keeps one remote connected from the moment when a person wants it until nobody does, or nothing but a person can help. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Remote as RemoteView, RemoteError, RemoteNotice, RemoteSsh } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { waitBefore } from './backoff.js';
import type { HostSetup, PreparedHost, ReachableRemote, RemoteShell } from './contracts.js';
import { acceleratorOf, Heartbeat } from './heartbeat.js';
import { isCloudSilent, outlookOf, RemoteProblem, RemoteQueued, told } from './remote-error.js';
import type { RemoteLink } from './link.js';
import { type LinkContext, type LinkOwner, openLink, type Targets } from './open-link.js';
import type { NetworkWatch } from './network-watch.js';
import type { RemoteLog } from './remote-log.js';
import type { RemotePhase } from './remote-phase.js';
import type { RemoteRecord } from './remote-store.js';

/** A stage that takes longer than this is something being installed, and not merely looked at. */
const SETTING_UP_MS = 1_500;
/** An attempt that began less long ago began on the network as it is now, and is not begun anew. */
const HANGING_MS = 3_000;

/** The machine is no longer there, with all that was only there. */
const GONE: ReadonlySet<string> = new Set(['remote_preempted', 'colab_reclaimed']);

/** How a machine looks that was preempted, between its end and the one that is created under its name. */
const NOT_BACK: ReadonlySet<string> = new Set([
  'remote_preempted',
  'remote_machine_stopped',
  'gcloud_not_found'
]);

/** What the connections of all remotes share. */
export interface ConnectionContext extends LinkContext {
  /** Installs what is missing there. */
  readonly setup: HostSetup;
  /** Uses what is installed there. */
  readonly installed: HostSetup;
  readonly network: NetworkWatch;
  /** Between two looks at a machine that the cloud has not handed over yet. */
  readonly queueLookMs: number;
  readonly log: Logger;
}

/** Whose connection it is: what a person wants of it, and who hears how it goes. */
export interface ConnectionOwner extends LinkOwner {
  readonly context: ConnectionContext;
  readonly log: Pick<RemoteLog, 'add' | 'hide'>;
  readonly phase: RemotePhase;
  /** Whether a person insists that a gateway of another build ends for ours. */
  readonly takesOver: boolean;
  /** Whether the cloud had said, when it was last heard of, that the machine is being taken back. */
  readonly isBeingTaken: boolean;
  beginAttempt(): void;
  move(phase: RemotePhase): void;
  change(fields: Pick<RemoteRecord, 'lastConnectedAt'>): void;
  /** Its gateway has answered. */
  beat(roundTripMs: number, notice: RemoteNotice | null): void;
  accelerator(found: RemoteView['accelerator']): void;
  /** How its gateway is reached; null: not any more. */
  reach(found: ReachableRemote | null): void;
}

export class RemoteConnection {
  readonly #remote: ConnectionOwner;
  readonly #stopped = new AbortController();
  readonly #ended: Promise<void>;
  #targets: Targets | null = null;
  #link: RemoteLink | null = null;
  #heartbeat: Heartbeat | null = null;
  #waking = new AbortController();
  /** Ends an attempt, or says of a connection that it was ended, so that the next one begins at once. */
  #anew = new AbortController();
  /** When the attempt began that is being made. */
  #since: number | null = null;
  #renewing: ((problem: RemoteProblem) => void) | null = null;
  #isOver = false;
  #hasAccelerator = false;
  #queuedAt: number | null = null;
  /** Why it was preempted, while it is looked for until another machine has its name. */
  #preempted: RemoteError | null = null;

  constructor(remote: ConnectionOwner) {
    this.#remote = remote;
    const watching = remote.context.network.listen(change => {
      remote.log.add(change === 'clock' ? 'this computer was asleep' : 'the network has changed');
      this.wake();
    });
    this.#ended = this.#stayConnected().finally(async () => {
      this.#isOver = true;
      watching[Symbol.dispose]();
      await this.#dropLink();
    });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whatever is waited for is tried at once, also where ssh hangs; a connection that stands is put to the test. */
  wake(): void {
    this.#waking.abort();
    this.#heartbeat?.probe();
    const { current, wasAnswered } = this.#remote.prompts;
    // Who is being asked, or has just answered, is not asked again.
    if (this.#link !== null || current !== null || wasAnswered || this.#since === null) return;
    if (performance.now() - this.#since > HANGING_MS) this.#anew.abort();
  }

  /** Something else is to be there than was. Logging in goes on: what is to be there is read after it. */
  prepareAnew(): void {
    this.#waking.abort();
    if (this.#link === null) return;
    this.#anew.abort();
    this.#renewing?.(new RemoteProblem('remote_lost', 'Something else is to be there from now on.'));
  }

  /** It is reached in another way from now on: not where hosts are known already. A connection that stands goes on. */
  reachAnew(): void {
    this.#targets = null;
    if (this.#link === null) this.#anew.abort();
  }

  renew(): void {
    this.#renewing?.(
      new RemoteProblem('remote_lost', 'The gateway there does not know us any more; it is asked anew.')
    );
  }

  withShell<T>(use: (shell: RemoteShell) => Promise<T>): Promise<T> | null {
    return this.#link && !this.#link.isOver ? use(this.#link.shell) : null;
  }

  get ssh(): RemoteSsh | null {
    return this.#link && !this.#link.isOver ? this.#link.ssh : null;
  }

  async end(): Promise<void> {
    this.#stopped.abort();
    await this.#ended;
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }

  async #stayConnected(): Promise<void> {
    const { signal } = this.#stopped;
    for (let failures = 0; !this.#isStopped;) {
      const anew = new AbortController();
      this.#anew = anew;
      this.#since = performance.now();
      try {
        const { link, prepared } = await this.#connect(AbortSignal.any([signal, anew.signal]));
        this.#since = null;
        failures = 0;
        throw await this.#whileConnected(link, prepared, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#since = null;
        if (this.#link?.isOver === true) await this.#dropLink();
        if (anew.signal.aborted) {
          this.#remote.log.add('begun anew');
          continue;
        }
        if (this.#remote.prompts.current) {
          // ssh has given up waiting; the person has not, and the answer is for the next attempt.
          await Promise.race([this.#remote.prompts.settled(), aborted(signal)]);
          if (!this.#remote.prompts.wasRefused) continue;
        } else if (this.#cameTooLate(error)) continue;
        failures++;
        if (!(await this.#failed(error, failures, signal))) return;
      }
    }
  }

  /** Resolves when the gateway of the remote serves. */
  async #connect(signal: AbortSignal): Promise<{ link: RemoteLink; prepared: PreparedHost }> {
    const remote = this.#remote;
    // A machine that is waited for is looked for again without a change that anybody sees.
    const isLookedFor =
      remote.phase.kind === 'queued' || (remote.phase.kind === 'preempted' && this.#preempted !== null);
    if (remote.phase.kind !== 'connecting' && !isLookedFor) remote.move({ kind: 'connecting' });
    remote.beginAttempt();
    this.#waking = new AbortController();
    const link = this.#link ?? (await this.#logIn(signal));
    return { link, prepared: await this.#prepare(link, signal) };
  }

  async #logIn(signal: AbortSignal): Promise<RemoteLink> {
    const known = this.#targets;
    // The machine may have another address by the next attempt, unless this one succeeds.
    this.#targets = null;
    const { link, targets } = await openLink(this.#remote, known, signal);
    this.#queuedAt = null;
    this.#preempted = null;
    this.#link = link;
    this.#hasAccelerator = false;
    this.#targets = targets;
    return link;
  }

  async #prepare(link: RemoteLink, signal: AbortSignal): Promise<PreparedHost> {
    const remote = this.#remote;
    const { setup, installed } = remote.context;
    const slow = setTimeout(() => {
      if (remote.phase.kind === 'connecting') remote.move({ kind: 'setting-up' });
    }, SETTING_UP_MS);
    try {
      return await link.prepare(remote.record.install ? setup : installed, {
        environment: remote.record.environment,
        sender: remote.record.sender,
        takeOver: remote.takesOver,
        ...(remote.record.hostOnly === undefined ? {} : { hostOnly: remote.record.hostOnly }),
        signal,
        onStage: stage => remote.stage(stage),
        onCheck: check => remote.check(check),
        onLog: line => remote.log.add(line)
      });
    } catch (error) {
      // A connection that broke is the reason of whatever failed on it.
      throw link.isOver && !this.#isStopped ? await link.lost : error;
    } finally {
      clearTimeout(slow);
    }
  }

  /** Resolves with the reason why it is over. */
  async #whileConnected(
    link: RemoteLink,
    prepared: PreparedHost,
    signal: AbortSignal
  ): Promise<RemoteProblem> {
    const remote = this.#remote;
    const { gatewayId, token } = prepared;
    const { socketPath } = link;
    remote.log.hide(token);
    remote.move({ kind: 'connected', since: Date.now(), gatewayId });
    remote.change({ lastConnectedAt: Date.now() });
    const renewed = new Promise<RemoteProblem>(resolve => (this.#renewing = resolve));
    const heartbeat = new Heartbeat({
      socketPath,
      token,
      gatewayId,
      host: link.shell.host,
      onBeat: ({ roundTripMs, notice }) => {
        remote.beat(roundTripMs, notice);
        void this.#askAccelerator(socketPath, token, signal);
      }
    });
    this.#heartbeat = heartbeat;
    const over = new AbortController();
    const balance = remote.colab?.watchBalance(check => remote.check(check), over.signal);
    remote.reach({ name: remote.name, socketPath, token, gatewayId });
    try {
      const silent = heartbeat.failed.then(async ({ problem, isSilent }) => {
        // The connection may be dead without knowing it. One on which an error came back is not.
        if (isSilent) await this.#dropLink();
        return problem;
      });
      const stopped = aborted(signal).then(() => new RemoteProblem('remote_interrupted', 'Not wanted now.'));
      return await Promise.race([link.lost, silent, renewed, stopped]);
    } finally {
      over.abort();
      await balance;
      this.#renewing = null;
      this.#heartbeat = null;
      heartbeat[Symbol.dispose]();
      remote.reach(null);
    }
  }

  /** Once for each machine; again with the next beat when it could not tell. */
  async #askAccelerator(socketPath: string, token: string, signal: AbortSignal): Promise<void> {
    if (this.#hasAccelerator) return;
    this.#hasAccelerator = true;
    try {
      const found = await acceleratorOf(socketPath, token, signal);
      this.#hasAccelerator = found !== null;
      this.#remote.accelerator(found);
    } catch {
      this.#hasAccelerator = false;
    }
  }

  /** The host gave up while a person was answering: ssh sees that only with the answer, which the next attempt will give. */
  #cameTooLate(error: unknown): boolean {
    const { phase, prompts } = this.#remote;
    const isLoggingIn = this.#link === null && phase.kind !== 'connected';
    return isLoggingIn && prompts.wasAnswered && outlookOf(error) === 'again';
  }

  /** True: to be tried again, now. */
  async #failed(reason: unknown, failures: number, signal: AbortSignal): Promise<boolean> {
    const remote = this.#remote;
    const error = remote.isBeingTaken ? takenBack(remote.name, reason) : reason;
    if (error instanceof RemoteQueued) return this.#waitInQueue(error, signal);
    const known = told(error);
    if (this.#mayComeBack(error)) return this.#waitForAnother(known, isCloudSilent(error), signal);
    this.#preempted = null;
    if (known.code === 'internal')
      remote.context.log.error({ remote: remote.name, err: error }, 'remote failed');
    // A person who connects for the first time waits for an answer and not for a better time, unless the cloud made them wait anyway.
    const isFirst =
      remote.record.lastConnectedAt === null && this.#queuedAt === null && !(await remote.colab?.isKnown());
    const isSilence = this.#queuedAt !== null && known.code === 'gcloud_login';
    if ((outlookOf(error) === 'person' && !isSilence) || isFirst) {
      await this.#dropLink();
      remote.move({ kind: GONE.has(known.code) ? 'preempted' : 'failed', error: known });
      return false;
    }
    const ms = waitBefore(failures);
    remote.move({ kind: 'reconnecting', error: known, nextAttemptAt: Date.now() + ms });
    return this.#pause(ms, signal);
  }

  /** A machine of Google Cloud that was preempted is often created again under its name; it is connected then, unasked. */
  #mayComeBack(error: unknown): boolean {
    if (this.#remote.record.source.kind !== 'gcloud' || !(error instanceof RemoteProblem)) return false;
    if (error.code === 'remote_preempted') return true;
    return this.#preempted !== null && (NOT_BACK.has(error.code) || isCloudSilent(error));
  }

  /** @param isSilent Google Cloud could not be asked, which is news only to a person who has asked for it */
  async #waitForAnother(error: RemoteError, isSilent: boolean, signal: AbortSignal): Promise<boolean> {
    const { context, phase } = this.#remote;
    await this.#dropLink();
    if (error.code === 'remote_preempted') this.#preempted = error;
    const shown = isSilent ? error : (this.#preempted ?? error);
    const isNews = phase.kind !== 'preempted' || (!isSilent && phase.error.code !== shown.code);
    if (isNews) this.#remote.move({ kind: 'preempted', error: shown });
    return this.#pause(context.queueLookMs, signal);
  }

  /** Waiting for hours is how most machines with TPUs come, also at the first connection. */
  async #waitInQueue({ queue }: RemoteQueued, signal: AbortSignal): Promise<boolean> {
    this.#queuedAt ??= queue.since ?? Date.now();
    const ms = this.#remote.context.queueLookMs;
    this.#remote.move({
      kind: 'queued',
      queue: { state: queue.state, since: this.#queuedAt },
      nextAttemptAt: Date.now() + ms
    });
    return this.#pause(ms, signal);
  }

  /** True: to be tried again. Ends early when it is woken. */
  async #pause(ms: number, signal: AbortSignal): Promise<boolean> {
    await wait(ms, undefined, { signal: AbortSignal.any([signal, this.#waking.signal]) }).catch(
      () => undefined
    );
    return !signal.aborted;
  }

  async #dropLink(): Promise<void> {
    const link = this.#link;
    this.#link = null;
    await link?.[Symbol.asyncDispose]();
  }
}

/** A machine that was to be taken back and does not answer any more has been. */
function takenBack(name: string, reason: unknown): unknown {
  const isAway = reason instanceof RemoteProblem && /^remote_(unreachable|name_unknown)$/.test(reason.code);
  if (!isAway) return reason;
  return new RemoteProblem(
    'remote_preempted',
    `${name} was preempted: that had been announced, and it does not answer any more. Create another machine, then connect again. What its kernels printed is still here.`,
    { cause: reason }
  );
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise(resolve => signal.addEventListener('abort', () => resolve(), { once: true }));
}
