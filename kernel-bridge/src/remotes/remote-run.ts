/** Keeps one remote connected from the moment when a person wants it until nobody does, or nothing but a person can help. */
import { setTimeout as wait } from 'node:timers/promises';
import { waitBefore } from './backoff.js';
import type { PreparedHost, RemoteShell } from './contracts.js';
import { acceleratorOf } from './accelerator.js';
import { Heartbeat } from './heartbeat.js';
import type { Remote } from './remote.js';
import { outlookOf, RemoteProblem, told } from './remote-error.js';
import { openLink } from './open-link.js';
import type { RemoteLink } from './remote-link.js';
import type { SshTarget } from './ssh/target.js';

/** A stage that takes longer than this is something being installed, and not merely looked at. */
const SETTING_UP_MS = 1_500;
/** An attempt that began less long ago began on the network as it is now, and is not begun anew. */
const HANGING_MS = 3_000;

export class RemoteRun {
  readonly #remote: Remote;
  readonly #stopped = new AbortController();
  readonly #ended: Promise<void>;
  #targets: readonly [SshTarget, ...SshTarget[]] | null = null;
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

  constructor(remote: Remote) {
    this.#remote = remote;
    const watching = remote.context.network.listen(change => {
      remote.log.add(change === 'clock' ? 'this computer was asleep' : 'the network has changed');
      this.wake();
    });
    this.#ended = this.#loop().finally(async () => {
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

  async end(): Promise<void> {
    this.#stopped.abort();
    await this.#ended;
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stopped;
    for (let failures = 0; !this.#isStopped;) {
      const anew = new AbortController();
      this.#anew = anew;
      this.#since = performance.now();
      try {
        const { link, prepared } = await this.#attempt(AbortSignal.any([signal, anew.signal]));
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

  /** The host gave up while a person was answering: ssh sees that only with the answer, which the next attempt will give. */
  #cameTooLate(error: unknown): boolean {
    const { phase, prompts } = this.#remote;
    const isLoggingIn = this.#link === null && phase.kind !== 'connected';
    return isLoggingIn && prompts.wasAnswered && outlookOf(error) === 'again';
  }

  /** Resolves when the gateway of the remote serves. */
  async #attempt(signal: AbortSignal): Promise<{ link: RemoteLink; prepared: PreparedHost }> {
    const remote = this.#remote;
    const { setup, installed } = remote.context;
    if (remote.phase.kind !== 'connecting') remote.move({ kind: 'connecting' });
    remote.beginAttempt();
    this.#waking = new AbortController();
    const link = this.#link ?? (await this.#open(signal));
    const slow = setTimeout(() => {
      if (remote.phase.kind === 'connecting') remote.move({ kind: 'setting-up' });
    }, SETTING_UP_MS);
    try {
      const prepared = await link.prepare(remote.record.install ? setup : installed, {
        environment: remote.record.environment,
        sender: remote.record.sender,
        takeOver: remote.takesOver,
        signal,
        onStage: stage => remote.stage(stage),
        onCheck: check => remote.check(check),
        onLog: line => remote.log.add(line)
      });
      return { link, prepared };
    } catch (error) {
      // A connection that broke is the reason of whatever failed on it.
      throw link.isOver && !this.#isStopped ? await link.lost : error;
    } finally {
      clearTimeout(slow);
    }
  }

  async #open(signal: AbortSignal): Promise<RemoteLink> {
    const known = this.#targets;
    // The machine may have another address by the next attempt, unless this one succeeds.
    this.#targets = null;
    const { link, targets } = await openLink(this.#remote, known, signal);
    this.#link = link;
    this.#hasAccelerator = false;
    this.#targets = targets;
    return link;
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

  /** True: to be tried again, now. */
  async #failed(reason: unknown, failures: number, signal: AbortSignal): Promise<boolean> {
    const remote = this.#remote;
    const error = remote.isBeingTaken ? takenBack(remote.name, reason) : reason;
    const known = told(error);
    if (known.code === 'internal')
      remote.context.log.error({ remote: remote.name, err: error }, 'remote failed');
    // A person who connects for the first time waits for an answer and not for a better time.
    const isFirst = remote.record.lastConnectedAt === null;
    if (outlookOf(error) === 'person' || isFirst) {
      await this.#dropLink();
      remote.move({ kind: known.code === 'remote_preempted' ? 'preempted' : 'failed', error: known });
      return false;
    }
    const ms = waitBefore(failures);
    remote.move({ kind: 'reconnecting', error: known, nextAttemptAt: Date.now() + ms });
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
