/** All kernels of one state folder: starts them, finds the kernels of an earlier gateway again, removes them. */
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Logger } from 'pino';
import { JOURNAL_LIMITS, type JournalLimits, JournalReader, measureSegments } from '../journal/index.js';
import type { KeeperHandle, LaunchDescription } from '../keeper-protocol/contract.js';
import { keeperElsewhere, KeeperError } from '../keeper-protocol/keeper-error.js';
import {
  type EndedKernel,
  forgetEnd,
  keepOnlyJournal,
  leaveJournal,
  readEnded,
  SHUT_DOWN
} from './journal-folders.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import { endOrphan, endSilent, type KeeperAccess, presumed } from '../keeper-client/access.js';
import { kernelEnv, WORKING_DIR, workingDirectory } from './kernel-env.js';
import type { KeeperSearch } from '../keeper-client/search.js';
import { Kernel, type Reattach } from './kernel.js';
import type { KernelSpecCatalog } from './kernelspec-catalog.js';
import { socketFolder } from '@tpulab/platform/socket-folder.js';
import { presenceOfKernel, readLaunch } from '../keeper-protocol/keeper-file.js';

interface KernelRegistryOptions {
  readonly stateDir: string;
  readonly rootDir: string;
  readonly specs: KernelSpecCatalog;
  readonly keepers: KeeperAccess;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Additional variables for a kernel that is being started, which override the gateway's. */
  readonly hostEnv?: (specName: string) => Promise<Readonly<Record<string, string>>>;
  readonly log: Logger;
  readonly restartLimit?: number;
  readonly shutdownWaitMs?: number;
  /** Names of variables that a request may set for its kernel, beside `KERNEL_*`. */
  readonly clientEnvs?: readonly string[];
  /** Absent: the default. A retention of 0 removes a journal with its kernel. */
  readonly journal?: Partial<JournalLimits>;
}

interface StartKernelRequest {
  readonly name?: string | null | undefined;
  readonly path?: string | null | undefined;
  /** A UUID chosen by the client. */
  readonly kernelId?: string | null | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

export interface RegistryListener {
  added?(kernel: Kernel): void;
  removed?(kernel: Kernel): void;
}

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export class KernelRegistry {
  readonly #kernels = new Map<string, Kernel>();
  /** Ids of kernels that are being started; they are reserved, but not listed yet. */
  readonly #starting = new Set<string>();
  readonly #stopping = new Map<string, Promise<void>>();
  readonly #listeners = new Set<RegistryListener>();

  constructor(private readonly options: KernelRegistryOptions) {}

  listen(listener: RegistryListener): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  list(): Kernel[] {
    return [...this.#kernels.values()];
  }

  find(id: string): Kernel | undefined {
    return this.#kernels.get(id);
  }

  get(id: string): Kernel {
    const kernel = this.#kernels.get(id);
    if (!kernel) throw bridgeError('kernel_not_found', id);
    return kernel;
  }

  /** The folder in which the kernel was started. */
  async workingDirectoryOf(kernel: Kernel): Promise<string> {
    return (await readLaunch(kernel.directory)).cwd;
  }

  async start(request: StartKernelRequest): Promise<Kernel> {
    const id = request.kernelId ?? randomUUID();
    if (this.isInUse(id)) throw bridgeError('kernel_exists', id);
    this.#starting.add(id);
    try {
      return await this.#start(id, request);
    } finally {
      this.#starting.delete(id);
    }
  }

  async #start(id: string, request: StartKernelRequest): Promise<Kernel> {
    const { stateDir, rootDir, specs, keepers, log } = this.options;
    const spec = await specs.get(request.name);
    const directory = this.#directory(id);
    // A keeper that this gateway does not know may have this id: its gateway was killed, or it was silent.
    const { presence, elsewhere } = await presenceOfKernel(directory);
    if (elsewhere !== null) {
      const { message } = keeperElsewhere(id, elsewhere);
      throw bridgeError('kernel_start_failed', message, undefined);
    }
    if (presence === 'here') await this.#adopt(id);
    if (this.#kernels.has(id)) throw bridgeError('kernel_exists', id);
    const { kernelBytes, retentionMs } = { ...JOURNAL_LIMITS, ...this.options.journal };
    const launch: LaunchDescription = {
      kernelId: id,
      specName: spec.name,
      displayName: spec.displayName,
      argv: spec.argv,
      resourceDir: spec.resourceDir,
      env: kernelEnv({
        gateway: { ...this.options.env, ...(await this.options.hostEnv?.(spec.name)) },
        spec,
        request: request.env,
        clientEnvs: this.options.clientEnvs ?? [],
        kernelId: id
      }),
      cwd: await workingDirectory(rootDir, request.path, request.env?.[WORKING_DIR]),
      interruptMode: spec.interruptMode,
      bestEffort: spec.bestEffort,
      runDir: runFolder(stateDir, id),
      restartLimit: this.options.restartLimit ?? 5,
      shutdownWaitMs: this.options.shutdownWaitMs ?? 5000,
      journalBytes: kernelBytes
    };
    // The client may have chosen the id of a kernel that has ended, or was lost with its machine; that journal continues.
    const before = {
      ended: retentionMs > 0 ? await readEnded(directory) : null,
      hasRecords: (await measureSegments(path.join(directory, 'journal'))).length > 0
    };
    const kernel = new Kernel(id, directory, log);
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      await forgetEnd(directory);
      const handle = await keepers.start(directory, launch, kernel.events);
      await this.#bind(kernel, handle);
    } catch (error) {
      await kernel.detach();
      if (error instanceof KeeperError && error.code === 'keeper_exists') {
        await this.#adopt(id);
        throw bridgeError('kernel_exists', id);
      }
      await this.#undoStart(id, launch, before);
      const detail = error instanceof Error ? error.message : String(error);
      const text = `The kernel "${spec.displayName}" (${spec.name}) did not start: ${detail}`;
      throw bridgeError('kernel_start_failed', text, error);
    }
    this.#add(kernel);
    log.info({ kernelId: id, kernelName: spec.name }, 'kernel started');
    return kernel;
  }

  /** After a failed start no process runs unlisted, and the journal of an earlier kernel is unchanged. */
  async #undoStart(
    id: string,
    { runDir }: LaunchDescription,
    before: { readonly ended: EndedKernel | null; readonly hasRecords: boolean }
  ): Promise<void> {
    const directory = this.#directory(id);
    try {
      await endSilent(directory);
    } catch (error) {
      // The process may use the accelerator, so it is listed, and can be ended later.
      this.options.log.error({ kernelId: id, err: error }, 'a kernel that did not start cannot be ended');
      await this.#adopt(id);
      return;
    }
    await rm(runDir, { recursive: true, force: true });
    if (before.ended) await leaveJournal(directory, before.ended);
    else if (before.hasRecords) await keepOnlyJournal(directory);
    else await rm(directory, { recursive: true, force: true });
  }

  /** A new kernel process under the same id. A keeper that has ended is replaced; the journal continues. */
  async restart(id: string): Promise<Kernel> {
    const kernel = this.get(id);
    if (kernel.isUnreachable || kernel.isSilent) await this.#revive(kernel);
    else await kernel.restart();
    return kernel;
  }

  async #revive(kernel: Kernel): Promise<void> {
    const { keepers, log } = this.options;
    if (this.#starting.has(kernel.id))
      throw bridgeError('kernel_action_failed', `Kernel ${kernel.id} is already being restarted.`);
    this.#starting.add(kernel.id);
    const isNew = kernel.isPresumed;
    try {
      await kernel.giveUp();
      await endSilent(kernel.directory);
      const launch = await readLaunch(kernel.directory);
      await this.#bind(kernel, await keepers.start(kernel.directory, launch, kernel.events));
      if (isNew) this.#add(kernel);
      log.info({ kernelId: kernel.id }, 'kernel restarted under a new keeper');
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      throw bridgeError('kernel_action_failed', `Could not restart kernel ${kernel.id}: ${detail}`, error);
    } finally {
      this.#starting.delete(kernel.id);
    }
  }

  /**
   * Finds the kernels whose keepers still run. A keeper that cannot be reached does not delay the others; as long as it
   * runs, its kernel is listed, and connecting is retried.
   */
  async adopt(): Promise<void> {
    const { stateDir, log } = this.options;
    const names = await readdir(path.join(stateDir, 'kernels')).catch(() => []);
    await Promise.all(
      names.filter(isKernelId).map(async id => {
        try {
          await this.#adopt(id);
        } catch (error) {
          log.error({ kernelId: id, err: error }, 'kernel could not be adopted');
        }
      })
    );
  }

  async #adopt(id: string): Promise<void> {
    const { log } = this.options;
    if (await readEnded(this.#directory(id))) return;
    const { elsewhere } = await presenceOfKernel(this.#directory(id));
    if (elsewhere !== null) {
      log.warn({ kernelId: id, host: elsewhere }, 'a kernel of another machine or container is left alone');
      return;
    }
    const kernel = new Kernel(id, this.#directory(id), log);
    const search = kernel.seek(this.#reattachOf(kernel));
    await search.firstTry;
    if (!kernel.isSilent) {
      await this.#adopted(kernel, search);
      return;
    }
    try {
      const lastSeq = await new JournalReader(kernel.journalDir).lastSeq().catch(() => 0);
      kernel.presume(await presumed(kernel.directory), lastSeq);
    } catch (error) {
      await kernel.detach();
      throw error;
    }
    if (!kernel.isPresumed) {
      // The keeper answered after all while its files were read.
      await this.#adopted(kernel, search);
      return;
    }
    this.#kernels.set(id, kernel);
    this.#adopted(kernel, search).catch((error: unknown) => {
      log.error({ kernelId: id, err: error }, 'kernel could not be adopted');
    });
  }

  /** Listeners are notified of a kernel only when its keeper has answered: before that, there is nothing to follow. */
  async #adopted(kernel: Kernel, search: KeeperSearch): Promise<void> {
    const { log } = this.options;
    const { id } = kernel;
    const end = await search.ended;
    if (end.how === 'found' && !kernel.isRemoved) {
      this.#add(kernel);
      log.info({ kernelId: id, kernelName: kernel.snapshot.specName }, 'kernel adopted');
    } else if (end.how === 'gone') {
      if (this.#kernels.delete(id)) for (const listener of this.#listeners) listener.removed?.(kernel);
      log.info({ kernelId: id }, 'the keeper of this kernel no longer runs; its journal stays on disk');
    } else if (end.how === 'failed') {
      // A listed kernel stays listed as dead: its process may run, and it can be restarted.
      if (this.#kernels.has(id)) this.#add(kernel);
      else throw end.error;
    }
  }

  async #bind(kernel: Kernel, handle: KeeperHandle): Promise<void> {
    await kernel.bind(handle, this.#reattachOf(kernel));
  }

  #reattachOf(kernel: Kernel): Reattach {
    return (events, signal) => this.options.keepers.attach(kernel.directory, events, signal);
  }

  /** Whether the kernel belongs to another machine or container that shares the state folder. */
  async isElsewhere(id: string): Promise<boolean> {
    return isKernelId(id) && (await presenceOfKernel(this.#directory(id))).elsewhere !== null;
  }

  /** The kernel is running, starting or ending, so its journal is in use. */
  isInUse(id: string): boolean {
    return this.#kernels.has(id) || this.#starting.has(id) || this.#stopping.has(id);
  }

  /** Shuts a kernel down and removes it from the list; its journal is retained for a while. */
  async remove(id: string): Promise<void> {
    const kernel = this.get(id);
    let stopping = this.#stopping.get(id);
    if (!stopping) {
      stopping = this.#remove(kernel).finally(() => this.#stopping.delete(id));
      this.#stopping.set(id, stopping);
    }
    await stopping;
  }

  async #remove(kernel: Kernel): Promise<void> {
    const { log } = this.options;
    // Read before the keeper ends; without it only an empty folder would remain.
    const launch = await readLaunch(kernel.directory).catch(() => null);
    await kernel.shutdown();
    if (kernel.isSilent) await endSilent(kernel.directory);
    else await endOrphan(kernel.directory);
    this.#kernels.delete(kernel.id);
    for (const listener of this.#listeners) listener.removed?.(kernel);
    try {
      await this.#leave(kernel.directory, launch?.specName ?? null);
    } catch (error) {
      // The kernel has ended as requested. Without that note, its last record counts as its end.
      log.warn(
        { kernelId: kernel.id, err: error },
        'the end of a kernel could not be noted; is the disk full?'
      );
    }
    if (launch) await rm(launch.runDir, { recursive: true, force: true });
    log.info({ kernelId: kernel.id }, 'kernel removed');
  }

  async #leave(directory: string, specName: string | null): Promise<void> {
    if ((this.options.journal?.retentionMs ?? JOURNAL_LIMITS.retentionMs) > 0) {
      const endedAt = new Date().toISOString();
      await leaveJournal(directory, {
        kernelId: path.basename(directory),
        specName,
        endedAt,
        reason: SHUT_DOWN
      });
    } else {
      await rm(directory, { recursive: true, force: true });
    }
  }

  /** Disconnects from all keepers without ending them. */
  async detach(): Promise<void> {
    await Promise.allSettled(this.list().map(kernel => kernel.detach()));
  }

  #add(kernel: Kernel): void {
    this.#kernels.set(kernel.id, kernel);
    for (const listener of this.#listeners) listener.added?.(kernel);
  }

  #directory(id: string): string {
    return path.join(this.options.stateDir, 'kernels', id);
  }
}

export function isKernelId(id: string): boolean {
  return ID.test(id);
}

/** The longest portable socket path, without the longest name that a keeper creates in the folder. */
const RUN_FOLDER_BYTES = 103 - 1 - 32;

export function runFolder(stateDir: string, kernelId: string): string {
  // Long enough to be unique among the kernels of one state folder, short enough for a socket path.
  const folder = path.join(stateDir, 'run', kernelId.replaceAll('-', '').slice(0, 16));
  return socketFolder(folder, RUN_FOLDER_BYTES, { odd: true });
}
