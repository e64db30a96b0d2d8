/** Keeps one remote connected from a person's request until it is no longer wanted, or only a person can help. */
import type { RemoteSsh } from '@tpulab/protocol';
import type { Machine, PreparedHost, RemoteShell, SetupOptions } from './machine.js';
import { acceleratorOf, GatewayWatch } from './gateway-watch.js';
import { RemoteGateway } from './remote-gateway.js';
import { recoveryOf, RemoteProblem, remoteErrorOf } from './remote-error.js';
import { type ConnectionOwner, refreshAddress, type Targets, withOtherHost } from './open-machine.js';
import { prepareMachine } from './prepare-machine.js';
import { Failures } from './next-attempt.js';
import { setsUpAllHosts } from './resolve-source.js';
import { type RemoteRecord, sourceName } from './remote-store.js';
import { CHECK as SLICE, lostHosts, type ReadyHost, SliceSetup } from './slice/slice-setup.js';
import { aborted, orAborted, pause } from '@tpulab/platform/waiting.js';

/** A stage that takes longer than this installs something, instead of only checking it. */
const SETTING_UP_MS = 1_500;
/** An attempt younger than this already uses the current network, and is not restarted. */
const NEW_ATTEMPT_MS = 3_000;

export class RemoteConnection {
  readonly #stopped = new AbortController();
  readonly #ended: Promise<void>;
  #targets: Targets | null = null;
  #machine: Machine | null = null;
  #watch: GatewayWatch | null = null;
  #retrySignal = new AbortController();
  /** Ends an attempt, or marks a connection as ended, so that the next attempt begins immediately. */
  #restart = new AbortController();
  /** Start time of the current attempt; null: none. */
  #since: number | null = null;
  #isOver = false;
  /** Hosts and environment of the slice that is offered as a kernel; null if none is offered. */
  #offered: string | null = null;
  /** Gateway id of the first host, at the last connection. */
  #gatewayId: string | null = null;
  /** Other hosts of the slice, as they were last set up. */
  #readyHosts: readonly ReadyHost[] = [];
  readonly #failures = new Failures();

  constructor(private readonly remote: ConnectionOwner) {
    const watching = remote.context.network.listen(change => {
      remote.log.add(change === 'clock' ? 'this computer was asleep' : 'the network has changed');
      this.wake();
    });
    this.#ended = this.#live(watching).catch((error: unknown) => {
      remote.context.log.error({ remote: remote.name, err: error }, 'a connection has failed');
      remote.log.add(`an unexpected error ended the connection: ${remoteErrorOf(error).message}`);
    });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Ends all waiting and retries now, even if ssh hangs; an open connection is probed. */
  wake(): void {
    this.#retrySignal.abort();
    this.#watch?.probe();
    const { current, wasAnswered } = this.remote.prompts;
    // While a prompt is open or was just answered, the person gets no second one.
    if (this.#machine !== null || current !== null || wasAnswered || this.#since === null) return;
    if (performance.now() - this.#since > NEW_ATTEMPT_MS) this.#restart.abort();
  }

  /** The wanted setup has changed. A login in progress continues: the new setup is read after it. */
  reprepare(): void {
    this.#retrySignal.abort();
    if (this.#machine === null) return;
    this.#restart.abort();
    this.#watch?.end(new RemoteProblem('remote_lost', "The machine's settings have changed."));
  }

  /** The access path has changed; known hosts stay known. An open connection continues. */
  relocate(): void {
    this.#targets = null;
    if (this.#machine === null) this.#restart.abort();
  }

  renew(): void {
    this.#watch?.end(
      new RemoteProblem('remote_lost', 'The server there no longer accepts our token; requesting a new one.')
    );
  }

  withShell<T>(use: (shell: RemoteShell) => Promise<T>): Promise<T> | null {
    return this.#machine && !this.#machine.isOver ? use(this.#machine.shell) : null;
  }

  get ssh(): RemoteSsh | null {
    return this.#machine && !this.#machine.isOver ? this.#machine.ssh : null;
  }

  async end(): Promise<void> {
    this.#stopped.abort();
    await this.#ended;
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }

  async #live(watching: Disposable): Promise<void> {
    try {
      await this.#stayConnected();
    } finally {
      this.#isOver = true;
      watching[Symbol.dispose]();
      await this.#disconnect();
    }
  }

  async #stayConnected(): Promise<void> {
    const { signal } = this.#stopped;
    for (let failures = 0; !this.#isStopped;) {
      const restart = new AbortController();
      this.#restart = restart;
      this.#since = performance.now();
      try {
        const { machine, prepared } = await this.#connect(AbortSignal.any([signal, restart.signal]));
        this.#since = null;
        failures = 0;
        throw await this.#whileConnected(machine, prepared, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#since = null;
        if (this.#machine?.isOver === true) await this.#disconnect();
        if (restart.signal.aborted) {
          this.remote.log.add('restarted');
          continue;
        }
        if (this.remote.prompts.current) {
          // ssh has stopped waiting, but the person has not; the next attempt uses the answer.
          await orAborted(this.remote.prompts.settled(), signal);
          if (!this.remote.prompts.wasRefused) continue;
        } else if (this.#isLateAnswer(error)) continue;
        failures++;
        if (!(await this.#failed(error, failures, signal))) return;
      }
    }
  }

  /** Resolves when the gateway of the remote serves requests. */
  async #connect(signal: AbortSignal): Promise<{ machine: Machine; prepared: PreparedHost }> {
    const remote = this.remote;
    const isShown = remote.phase.kind === 'connecting' || this.#failures.isAwaited(remote.phase);
    if (!isShown) remote.move({ kind: 'connecting' });
    remote.beginAttempt();
    this.#retrySignal = new AbortController();
    const machine = this.#machine ?? (await this.#logIn(signal));
    return { machine, prepared: await this.#prepare(machine, signal) };
  }

  async #logIn(signal: AbortSignal): Promise<Machine> {
    const lastTargets = this.#targets;
    // If this attempt fails, the machine may have another address at the next one.
    this.#targets = null;
    const { machine, targets } = await this.remote.context.open(this.remote, lastTargets, signal);
    this.#failures.loggedIn();
    // Login succeeded with another key while a prompt was still open.
    if (this.remote.phase.kind === 'waiting') this.remote.move({ kind: 'connecting' });
    this.#machine = machine;
    this.#targets = targets;
    return machine;
  }

  async #prepare(machine: Machine, signal: AbortSignal): Promise<PreparedHost> {
    const remote = this.remote;
    const { setup, installed } = remote.context;
    const over = new AbortController();
    const sliceSignal = AbortSignal.any([signal, over.signal]);
    let slice = this.#beginSlice(sliceSignal);
    // While the kernel of the slice is offered, ordinary kernels would wait for the other hosts.
    const hostOnly = remote.record.hostOnly ?? (this.#hasSlice || undefined);
    const slow = setTimeout(() => {
      if (remote.phase.kind === 'connecting') remote.move({ kind: 'setting-up' });
    }, SETTING_UP_MS);
    try {
      const prepared = await prepareMachine(machine, remote.record.install ? setup : installed, {
        ...setupOptionsOf(remote.record),
        takeOver: remote.takesOver,
        ...(hostOnly === undefined ? {} : { hostOnly }),
        signal,
        onStage: stage => remote.report.stage(stage),
        onCheck: check => remote.report.check(check),
        onLog: line => remote.log.add(line)
      });
      if (prepared.gatewayId !== this.#gatewayId) {
        // This may be another machine under the same address, which does not know the other hosts.
        this.#gatewayId = prepared.gatewayId;
        this.#offered = null;
        slice ??= this.#beginSlice(sliceSignal);
      }
      if (slice !== null) await this.#offerSlice(slice, machine, prepared, signal);
      return prepared;
    } catch (error) {
      over.abort();
      await slice?.abandon();
      // If the connection is broken, that is the cause of every failure on it.
      throw machine.isOver && !this.#isStopped ? await machine.lost : error;
    } finally {
      clearTimeout(slow);
    }
  }

  get #hasSlice(): boolean {
    const { record, context } = this.remote;
    const hosts = this.#targets?.length ?? 0;
    return setsUpAllHosts(record) && context.setup.equip !== undefined && hosts > 1;
  }

  /** Whether the remote has several hosts, but no kernel over all of them. */
  get lacksHosts(): boolean {
    return this.#hasSlice && this.#machine !== null && this.#offered === null;
  }

  /** null if the remote has one host, only the first one is wanted, or the kernel over all hosts is already offered. */
  #beginSlice(signal: AbortSignal): SliceSetup | null {
    const remote = this.remote;
    const { equip } = remote.context.setup;
    const [, ...others] = this.#targets ?? [];
    if (!this.#hasSlice || equip === undefined || this.#offered === this.#sliceKey) return null;
    this.#offered = null;
    return new SliceSetup({
      hosts: others.map((target, at) => ({ index: at + 1, target })),
      equip,
      withShell: ({ index, target }, use) => withOtherHost(remote, target, index, signal, use),
      wanted: {
        ...setupOptionsOf(remote.record),
        signal,
        onLog: line => remote.log.add(line)
      },
      onStage: stage => remote.report.stage(stage),
      onCheck: check => remote.report.check(check),
      before: this.#readyHosts
    });
  }

  async #offerSlice(
    slice: SliceSetup,
    machine: Machine,
    { equipped, token }: PreparedHost,
    signal: AbortSignal
  ): Promise<void> {
    if (equipped === undefined) return slice.abandon();
    const { record } = this.remote;
    using gateway = new RemoteGateway({ socketPath: machine.socketPath, token });
    const found = await acceleratorOf(gateway, signal).catch(() => null);
    const name = sourceName(record.source).toLowerCase();
    const ready = await slice.offer(name, { shell: machine.shell, equipped, type: found?.type ?? null });
    if (ready !== null) [this.#offered, this.#readyHosts] = [this.#sliceKey, ready];
  }

  /**
   * Sets the hosts up again when the kernel of the slice could not reach one: the cloud may have recreated that host. Never
   * rejects.
   */
  async #maintainSlice(machine: Machine, prepared: PreparedHost, signal: AbortSignal): Promise<void> {
    const { equipped } = prepared;
    const { log, context } = this.remote;
    const isOver = (): boolean => signal.aborted;
    while (equipped !== undefined && this.#offered !== null && !isOver()) {
      try {
        const lost = await lostHosts({ shell: machine.shell, equipped }, signal);
        if (lost.length === 0) continue;
        log.add(`the kernel of the slice did not reach host ${lost.join(', ')}; looking for it again`);
        while (!isOver() && !(await this.#repeatSetup(machine, prepared, signal))) {
          await pause(context.queuePollMs, signal);
        }
      } catch (error) {
        if (isOver()) return;
        log.add(`the slice is not watched: ${remoteErrorOf(error).message}`);
        await pause(context.queuePollMs, signal);
      }
    }
  }

  /** False: not all hosts are ready yet. */
  async #repeatSetup(machine: Machine, prepared: PreparedHost, signal: AbortSignal): Promise<boolean> {
    const remote = this.remote;
    const offered = this.#offered;
    try {
      const targets = await refreshAddress(remote, signal);
      // The connection itself detects a change of the first host.
      if (targets === null || targets[0].destination !== this.#targets?.[0].destination) return true;
      this.#targets = targets;
      this.#offered = null;
      const slice = this.#beginSlice(signal);
      if (slice === null) return true;
      await this.#offerSlice(slice, machine, prepared, signal);
      return this.#isOffered;
    } catch (error) {
      if (!signal.aborted) {
        const { message } = remoteErrorOf(error);
        remote.report.check({
          name: SLICE,
          state: 'warning',
          message,
          remedy: 'TPULab retries automatically.'
        });
      }
      return false;
    } finally {
      // The slice stays watched until it is set up again.
      this.#offered ??= offered;
    }
  }

  get #isOffered(): boolean {
    return this.#offered !== null;
  }

  get #sliceKey(): string {
    return JSON.stringify([this.remote.record.environment, this.#targets]);
  }

  /** Resolves with the reason for the end of the connection. */
  async #whileConnected(
    machine: Machine,
    prepared: PreparedHost,
    signal: AbortSignal
  ): Promise<RemoteProblem> {
    const remote = this.remote;
    const { gatewayId, token } = prepared;
    const { socketPath } = machine;
    remote.log.hide(token);
    remote.move({ kind: 'connected', since: Date.now(), gatewayId });
    remote.change({ lastConnectedAt: Date.now() });
    const watch = new GatewayWatch({
      socketPath,
      token,
      gatewayId,
      host: machine.shell.host,
      report: remote.report,
      added: found => remote.change({ added: { ...remote.record.added, ...found } })
    });
    this.#watch = watch;
    const over = new AbortController();
    const balance = remote.colab?.watchBalance(check => remote.report.check(check), over.signal);
    const keeping = this.#maintainSlice(machine, prepared, AbortSignal.any([signal, over.signal]));
    remote.reach({ name: remote.name, socketPath, token, gatewayId });
    try {
      const failed = watch.failed.then(async ({ problem, isSilent }) => {
        // The connection may have died undetected, unless it returned an error.
        if (isSilent) await this.#disconnect();
        return problem;
      });
      const stopped = aborted(signal, over.signal).then(
        () => new RemoteProblem('remote_interrupted', 'Not wanted now.')
      );
      return await Promise.race([machine.lost, failed, stopped]);
    } finally {
      over.abort();
      await balance;
      await keeping;
      this.#watch = null;
      watch[Symbol.dispose]();
      remote.reach(null);
    }
  }

  /** The host gave up while a person was answering: ssh notices that only with the answer, which the next attempt will send. */
  #isLateAnswer(error: unknown): boolean {
    const { phase, prompts } = this.remote;
    const isLoggingIn = this.#machine === null && phase.kind !== 'connected';
    return isLoggingIn && prompts.wasAnswered && recoveryOf(error) === 'again';
  }

  /** True: retry now. */
  async #failed(reason: unknown, failures: number, signal: AbortSignal): Promise<boolean> {
    const { name, record, phase, context, report, colab } = this.remote;
    const { error, waitMs, ...next } = await this.#failures.next(
      {
        name,
        record,
        phase,
        queuePollMs: context.queuePollMs,
        isBeingPreempted: report.isBeingPreempted,
        hasRuntime: async () => (await colab?.exists()) === true
      },
      reason,
      failures
    );
    if (error?.code === 'internal') context.log.error({ remote: name, err: reason }, 'remote failed');
    if (next.isConnectionOver) await this.#disconnect();
    if (next.phase !== null) this.remote.move(next.phase);
    return waitMs !== null && this.#pause(waitMs, signal);
  }

  /** True: retry. A wake-up ends the pause early. */
  async #pause(ms: number, signal: AbortSignal): Promise<boolean> {
    await pause(ms, AbortSignal.any([signal, this.#retrySignal.signal]));
    return !signal.aborted;
  }

  async #disconnect(): Promise<void> {
    const machine = this.#machine;
    this.#machine = null;
    await machine?.[Symbol.asyncDispose]();
  }
}

function setupOptionsOf({
  environment,
  sender,
  added
}: RemoteRecord): Pick<SetupOptions, 'environment' | 'sender' | 'added'> {
  return { environment, sender, added: added?.[environment] ?? [] };
}
