/** All remotes of a gateway: adds and removes them, connects the wanted ones, and reports their changes. */
import { rm } from 'node:fs/promises';
import { homeFolder } from '@tpulab/platform/user-folders.js';
import path from 'node:path';
import type {
  AddRemote,
  Remote as RemoteView,
  RemoteCandidates,
  RemoteEvent,
  RemoteSource,
  RemoteStage
} from '@tpulab/protocol';
import type { Logger } from 'pino';
import { bridgeError } from '@tpulab/platform/errors.js';
import { ColabAccount } from './colab/colab-account.js';
import { colabOnPath } from './colab/colab-command.js';
import type { HostSetup, ReachableRemote } from './machine.js';
import { type Gcloud, gcloudOnPath } from './gcloud/gcloud.js';
import { projectMachines, withZone } from './gcloud/project-machines.js';
import { socketFolder } from '@tpulab/platform/socket-folder.js';
import { deadline } from '@tpulab/platform/waiting.js';
import { InstalledSetup } from './setup/installed-setup.js';
import { NetworkWatch } from './network-watch.js';
import { Remote, type RemoteContext } from './remote.js';
import { RemoteProblem, remoteErrorOf } from './remote-error.js';
import { isRemoteName, nameFor, newSender, RemoteStore } from './remote-store.js';
import { createHostSetup } from './setup/host-setup.js';
import { Askpass } from './ssh/askpass.js';
import { checkDestination, sshHosts } from './ssh/ssh-config.js';
import { openMachine, type OpenMachine, type Targets, withOtherHost } from './open-machine.js';
import { hostStage } from './slice/slice-setup.js';

export interface RemotesOptions {
  readonly stateDir: string;
  readonly log: Logger;
  /** Makes a host ready; if omitted, the setup that installs missing parts. */
  readonly setup?: HostSetup;
  readonly sshProgram?: string;
  /** Opens the connection to a machine; if omitted, by ssh. */
  readonly open?: OpenMachine;
  readonly gcloud?: Gcloud;
  readonly colab?: ColabAccount;
  readonly colabBalanceMs?: number;
  readonly network?: NetworkWatch;
  readonly home?: string;
  readonly queuePollMs?: number;
  readonly mirror?: (name: string) => RemoteView['mirror'];
}

/** A remote to add, whose zone is known. */
type PlacedRemote = Omit<AddRemote, 'source'> & { readonly source: RemoteSource };

/** Notified when the gateway of a remote becomes reachable, and when it becomes unreachable (null). */
export type ReachableListener = (name: string, found: ReachableRemote | null) => void;

const DEFAULT_ENVIRONMENT = 'jax';
const NO_MIRROR = { kernels: 0, bytes: 0, behindBytes: 0 };
const CANDIDATES_MS = 60_000;
/** Each check starts gcloud. */
const QUEUE_POLL_MS = 30_000;
/** Longest path of a control socket, with ssh's suffix, that every system accepts. */
const RUN_DIR_BYTES = 60;

export class Remotes implements AsyncDisposable {
  readonly #remotes = new Map<string, Remote>();
  readonly #context: RemoteContext;
  #place: Promise<RunFolder> | null = null;
  readonly #changeListeners = new Set<(event: RemoteEvent) => void>();
  readonly #reachableListeners = new Set<ReachableListener>();

  private constructor(
    private readonly options: RemotesOptions,
    private readonly store: RemoteStore
  ) {
    const installed = new InstalledSetup();
    this.#context = {
      sshProgram: options.sshProgram ?? 'ssh',
      open: options.open ?? openMachine,
      place: () => (this.#place ??= makeRunFolder(options.stateDir)),
      logDir: path.join(options.stateDir, 'remotes'),
      gcloud: options.gcloud ?? gcloudOnPath(),
      colab: options.colab ?? new ColabAccount(colabOnPath()),
      ...(options.colabBalanceMs === undefined ? {} : { colabBalanceMs: options.colabBalanceMs }),
      colabDir: path.join(options.stateDir, 'colab'),
      setup: options.setup ?? createHostSetup(),
      installed,
      network: options.network ?? new NetworkWatch(),
      queuePollMs: options.queuePollMs ?? QUEUE_POLL_MS,
      log: options.log,
      mirror: options.mirror ?? (() => NO_MIRROR),
      changed: remote => this.#notify(remote, false),
      reachable: (remote, found) => {
        for (const listener of [...this.#reachableListeners]) listener(remote.name, found);
      },
      save: () => this.#save()
    };
  }

  /** `start` connects the remotes that were wanted when the last gateway ended. */
  static async open(options: RemotesOptions): Promise<Remotes> {
    const store = new RemoteStore(options.stateDir, options.log);
    const records = await store.load();
    const remotes = new Remotes(options, store);
    for (const record of records) remotes.#remotes.set(record.name, new Remote(record, remotes.#context));
    return remotes;
  }

  /** @param pausedBecause why the remotes are not connected now; a person can still connect them */
  start(pausedBecause?: string): void {
    for (const remote of this.#remotes.values()) {
      if (!remote.record.wanted) continue;
      if (pausedBecause === undefined) remote.connect();
      else remote.fail(new RemoteProblem('remote_held_back', pausedBecause));
    }
  }

  list(): Remote[] {
    return [...this.#remotes.values()];
  }

  find(name: string): Remote | undefined {
    return this.#remotes.get(name);
  }

  /** @throws BridgeError `remote_not_found` */
  get(name: string): Remote {
    const remote = this.#remotes.get(name);
    if (!remote) throw bridgeError('remote_not_found', name);
    return remote;
  }

  /** Adds the zone to a Google Cloud machine that was named without one. @throws BridgeError `invalid_request` */
  async place({ source, ...body }: AddRemote, signal: AbortSignal): Promise<PlacedRemote> {
    if (source.kind !== 'gcloud' || 'zone' in source) return { ...body, source };
    return { ...body, source: await withZone(this.#context.gcloud, source, signal) };
  }

  /** @throws BridgeError `remote_exists`, BridgeError `invalid_request` */
  add({ name, source, environment, install, connect }: PlacedRemote): Remote {
    if (source.kind === 'ssh') {
      try {
        checkDestination(source.destination);
      } catch (error) {
        throw bridgeError('invalid_request', remoteErrorOf(error).message, error);
      }
    } else if (
      source.kind === 'gcloud' &&
      [source.name, source.zone, source.project ?? ''].some(
        text => !/^[\w.:-]*$/.test(text) || text.startsWith('-')
      )
    ) {
      throw bridgeError(
        'invalid_request',
        'Names, zones and projects of Google Cloud consist of letters, digits and . : - _.'
      );
    }
    const isUsed = (one: string): boolean => this.#remotes.has(one);
    if (name !== undefined && !isRemoteName(name)) {
      throw bridgeError(
        'invalid_request',
        `"${name}" is not a valid name for a machine; use lowercase letters, digits, dots and hyphens.`
      );
    }
    if (name !== undefined && isUsed(name)) throw bridgeError('remote_exists', name);
    const record = {
      name: name ?? nameFor(source, isUsed),
      source,
      environment: environment ?? DEFAULT_ENVIRONMENT,
      install: install ?? true,
      wanted: connect ?? true,
      hosts: [],
      lastConnectedAt: null,
      sender: newSender()
    };
    const remote = new Remote(record, this.#context);
    this.#remotes.set(remote.name, remote);
    this.#save();
    if (record.wanted) remote.connect();
    else remote.report.notify();
    return remote;
  }

  /** The installation there and its kernels stay; `clean` removes them. */
  async remove(name: string): Promise<void> {
    const remote = this.get(name);
    if ((await remote.colab?.exists()) === true) {
      throw bridgeError(
        'invalid_request',
        `${name} has a Colab runtime that uses compute units. End it first ("tpulab disconnect ${name} --stop"), then remove it.`
      );
    }
    await remote.disconnect();
    this.#remotes.delete(name);
    this.#save();
    this.#notify(remote, true);
  }

  /** Ends the gateway and kernels there, and removes everything that was installed. */
  async clean(name: string, signal: AbortSignal): Promise<void> {
    await cleanRemote(this.get(name), signal);
  }

  /** Candidates in `project` of Google Cloud; if omitted, in gcloud's own project. */
  async candidates(signal: AbortSignal, project?: string): Promise<RemoteCandidates> {
    using within = deadline(CANDIDATES_MS, signal);
    const limit = within.signal;
    const [hosts, gcloud, colab] = await Promise.all([
      sshHosts(this.options.home ?? homeFolder()),
      projectMachines(this.#context.gcloud, limit, project),
      this.#context.colab.candidate(limit)
    ]);
    return { sshHosts: hosts, gcloud, colab };
  }

  /** One event for each remote, as if it had just changed. */
  events(): RemoteEvent[] {
    return this.list().map(remote => ({ topic: 'remotes', remote: remote.view(), removed: false }));
  }

  listen(listener: (event: RemoteEvent) => void): Disposable {
    this.#changeListeners.add(listener);
    return { [Symbol.dispose]: () => void this.#changeListeners.delete(listener) };
  }

  /** The listener is also called for remotes that are already reachable. */
  onReachable(listener: ReachableListener): Disposable {
    this.#reachableListeners.add(listener);
    for (const { name, reachable } of this.#remotes.values()) if (reachable) listener(name, reachable);
    return { [Symbol.dispose]: () => void this.#reachableListeners.delete(listener) };
  }

  /** Called when a value that is shown with a remote but stored elsewhere has changed. */
  refresh(name: string): void {
    this.find(name)?.report.notify();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.list().map(remote => remote.close()));
    this.#context.network[Symbol.dispose]();
    await this.store.settled();
    const place = await this.#place?.catch(() => null);
    await place?.[Symbol.asyncDispose]();
    this.#changeListeners.clear();
    this.#reachableListeners.clear();
  }

  #save(): void {
    this.store.save(this.list().map(({ record }) => record)).catch((error: unknown) => {
      this.options.log.error({ err: error }, 'machines could not be written down');
    });
  }

  #notify(remote: Remote, removed: boolean): void {
    const event: RemoteEvent = { topic: 'remotes', remote: remote.view(), removed };
    for (const listener of [...this.#changeListeners]) listener(event);
  }
}

/** Files that ssh needs on this machine, made for the first connection. */
type RunFolder = { readonly runDir: string; readonly askpass: Askpass } & AsyncDisposable;

async function makeRunFolder(stateDir: string): Promise<RunFolder> {
  const near = path.join(stateDir, 'run', 'ssh');
  const runDir = socketFolder(near, RUN_DIR_BYTES);
  const askpass = await Askpass.open(runDir);
  return {
    runDir,
    askpass,
    [Symbol.asyncDispose]: async () => {
      await askpass[Symbol.asyncDispose]();
      if (runDir !== near) await rm(runDir, { recursive: true, force: true });
    }
  };
}

/** An unreachable host of a slice keeps its installation. */
async function cleanOtherHosts(remote: Remote, [, ...others]: Targets, signal: AbortSignal): Promise<void> {
  if (!remote.record.install) return;
  const { setup } = remote.context;
  const work = others.map(async (target, at) => {
    const host = { index: at + 1, target };
    const row = (state: RemoteStage['state'], detail: string): void =>
      remote.report.stage(hostStage(host, state, detail));
    row('running', 'removing TPULab');
    try {
      await withOtherHost(remote, target, host.index, signal, shell =>
        setup.clean(shell, {
          signal,
          onStage: () => undefined,
          onCheck: () => undefined,
          onLog: line => remote.log.add(`host ${host.index}: ${line}`)
        })
      );
      row('done', 'TPULab was removed');
    } catch (error) {
      signal.throwIfAborted();
      row('failed', remoteErrorOf(error).message);
    }
  });
  await Promise.all(work);
}

/** Disconnects the remote afterwards, even after a failure. */
async function cleanRemote(remote: Remote, signal: AbortSignal): Promise<void> {
  await remote.disconnect();
  remote.move({ kind: 'connecting' });
  remote.beginAttempt();
  try {
    const { machine, targets } = await remote.context.open(remote, null, signal);
    try {
      const { setup, installed } = remote.context;
      await (remote.record.install ? setup : installed).clean(machine.shell, {
        signal,
        onStage: stage => remote.report.stage(stage),
        onCheck: check => remote.report.check(check),
        onLog: line => remote.log.add(line)
      });
      remote.log.add('cleaned: TPULab was removed from the machine');
      await cleanOtherHosts(remote, targets, signal);
    } finally {
      await machine[Symbol.asyncDispose]();
    }
    remote.move({ kind: 'disconnected' });
  } catch (error) {
    if (signal.aborted) {
      remote.move({ kind: 'disconnected' });
      throw new RemoteProblem('remote_interrupted', 'Cleaning was interrupted; run it again.', {
        cause: error
      });
    }
    remote.move({ kind: 'failed', error: remoteErrorOf(error) });
    throw error;
  }
}
