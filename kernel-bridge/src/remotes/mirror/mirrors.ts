/**
 * The local copies of the journals of remotes: `<state>/mirrors/<remote>/kernels/<id>/journal`, the layout of a state
 * folder, so that quota, retention, outputs and `tpulab journal` handle them like the gateway's own journals.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { MirroredKernel } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { type JournalLimits, JournalReader } from '../../journal/index.js';
import {
  bytesOf,
  findJournals,
  type JournalFolder,
  readEnded,
  SHUT_DOWN
} from '../../kernels/journal-folders.js';
import { documentsOfKernel } from '../../kernels/kernel-documents.js';
import { JournalSweeper } from '../../kernels/journal-sweeper.js';
import { OutputsOfKernels } from '../../outputs/index.js';
import { MirrorBudget } from './mirror-budget.js';
import { type KernelProgress, RemoteMirror, type RemoteMirrorOptions } from './remote-mirror.js';
import { InTurn } from '@tpulab/platform/waiting.js';

interface MirrorsOptions {
  /** State folder of the gateway. */
  readonly stateDir: string;
  /** Limits for each remote separately. */
  readonly limits: JournalLimits;
  readonly log: Logger;
  /** Called when the totals of a remote may have changed. */
  readonly onChange?: (remote: string) => void;
  /** Receives a line for the log of a remote. */
  readonly onLog?: (remote: string, line: string) => void;
  /** Called when the copies of a remote reach their limit, and the oldest records are removed. */
  readonly onFull?: (remote: string) => void;
  readonly silenceMs?: number;
}

interface MirrorTotals {
  readonly kernels: number;
  readonly bytes: number;
  readonly behindBytes: number;
  /** Number of archived journals, which the remote no longer has. */
  readonly putAside: number;
}

interface Mirror {
  readonly directory: string;
  readonly progress: Map<string, KernelProgress>;
  readonly space: MirrorBudget;
  readonly knownKernels: Set<string>;
  readonly restarts: Map<string, number[]>;
  readonly sweeper: JournalSweeper;
  readonly outputs: OutputsOfKernels;
  gateway: RemoteMirrorOptions['gateway'] | null;
  running: RemoteMirror | null;
  /** Runs changes in order, because the tunnel may be lost while the mirror is still being attached. */
  readonly changes: InTurn;
  totals: MirrorTotals;
  measuring: NodeJS.Timeout | null;
}

const NO_KERNELS = {
  list: () => [],
  find: () => undefined,
  listen: () => ({ [Symbol.dispose]: () => undefined })
};
const NOTHING: MirrorTotals = { kernels: 0, bytes: 0, behindBytes: 0, putAside: 0 };
/** How often the sizes are measured while records arrive. */
const MEASURE_MS = 2000;

export class Mirrors implements AsyncDisposable {
  readonly #mirrors = new Map<string, Mirror>();

  constructor(private readonly options: MirrorsOptions) {}

  /** The remote is reachable, perhaps at a new address. */
  attach(remote: string, gateway: RemoteMirrorOptions['gateway']): Promise<void> {
    const mirror = this.#open(remote);
    mirror.gateway = gateway;
    return mirror.changes.run(async () => {
      // The mirror was removed in the meantime; the remover starts it again.
      if (this.#mirrors.get(remote) !== mirror) return;
      await this.#stop(mirror);
      await this.#start(remote, mirror, gateway);
    });
  }

  /** The remote is no longer reachable, or no longer wanted. The copies stay. */
  async detach(remote: string): Promise<void> {
    const mirror = this.#mirrors.get(remote);
    if (!mirror) return;
    mirror.gateway = null;
    await mirror.changes.run(() => this.#stop(mirror));
  }

  /** Whether this name has a copy here, or is getting one. */
  async has(remote: string): Promise<boolean> {
    if (this.#mirrors.has(remote)) return true;
    return (await stat(this.#directoryOf(remote)).catch(() => null))?.isDirectory() === true;
  }

  totals(remote: string): MirrorTotals {
    return this.#mirrors.get(remote)?.totals ?? NOTHING;
  }

  /** The kernels of a remote whose journal is here, completely or in part. */
  async kernels(remote: string): Promise<MirroredKernel[]> {
    const { directory, progress } = this.#open(remote);
    const folders = await findJournals(directory, isUnfinished);
    return Promise.all(folders.map(folder => describe(folder, progress.get(folder.kernelId))));
  }

  /** Reads like `OutputsOfKernels` of a gateway; the kernels count as ended. */
  outputs(remote: string): OutputsOfKernels {
    return this.#open(remote).outputs;
  }

  /** Removes the copies of a remote. While the remote is reachable, its kernels are copied again from now on. */
  async remove(remote: string): Promise<void> {
    const mirror = this.#open(remote);
    await mirror.changes.run(async () => {
      await this.#stop(mirror);
      await close(mirror);
      await rm(mirror.directory, { recursive: true, force: true });
      this.#mirrors.delete(remote);
    });
    if (mirror.gateway !== null) await this.attach(remote, mirror.gateway);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const all = [...this.#mirrors.keys()];
    await Promise.all(all.map(remote => this.detach(remote)));
    await Promise.all([...this.#mirrors.values()].map(close));
    this.#mirrors.clear();
  }

  #open(remote: string): Mirror {
    const existing = this.#mirrors.get(remote);
    if (existing) return existing;
    const { limits, log } = this.options;
    const directory = this.#directoryOf(remote);
    const mirror: Mirror = {
      directory,
      progress: new Map(),
      space: new MirrorBudget({ directory, limits, onFull: () => this.options.onFull?.(remote) }),
      knownKernels: new Set(),
      restarts: new Map(),
      sweeper: new JournalSweeper({
        stateDir: directory,
        limits,
        isInUse: kernelId => mirror.progress.get(kernelId)?.state === 'following',
        log
      }),
      outputs: new OutputsOfKernels({ stateDir: directory, registry: NO_KERNELS, log }),
      gateway: null,
      running: null,
      changes: new InTurn(),
      totals: NOTHING,
      measuring: null
    };
    this.#mirrors.set(remote, mirror);
    void this.#measure(remote, mirror);
    return mirror;
  }

  async #start(remote: string, mirror: Mirror, gateway: RemoteMirrorOptions['gateway']): Promise<void> {
    const { log, silenceMs } = this.options;
    const folders = await findJournals(mirror.directory, isUnfinished);
    const unfinished = folders.filter(({ endedAt }) => endedAt === null).map(({ kernelId }) => kernelId);
    for (const kernelId of await readdir(path.join(mirror.directory, 'kernels')).catch(() => []))
      mirror.knownKernels.add(kernelId);
    mirror.running = new RemoteMirror({
      space: mirror.space,
      knownKernels: mirror.knownKernels,
      restarts: mirror.restarts,
      onLog: line => this.options.onLog?.(remote, line),
      gateway,
      unfinished,
      folderOf: kernelId => path.join(mirror.directory, 'kernels', kernelId),
      log: log.child({ remote }),
      ...(silenceMs === undefined ? {} : { silenceMs }),
      onProgress: (kernelId, progress) => {
        mirror.progress.set(kernelId, progress);
        this.#measureSoon(remote, mirror);
      }
    });
  }

  async #stop(mirror: Mirror): Promise<void> {
    const running = mirror.running;
    mirror.running = null;
    await running?.[Symbol.asyncDispose]();
    mirror.progress.clear();
  }

  #directoryOf(remote: string): string {
    return path.join(this.options.stateDir, 'mirrors', remote);
  }

  #measureSoon(remote: string, mirror: Mirror): void {
    mirror.measuring ??= setTimeout(() => {
      mirror.measuring = null;
      void this.#measure(remote, mirror);
    }, MEASURE_MS).unref();
  }

  async #measure(remote: string, mirror: Mirror): Promise<void> {
    let behindBytes = 0;
    for (const progress of mirror.progress.values()) behindBytes += progress.behindBytes;
    const totals = { ...(await mirror.space.use()), behindBytes };
    const isSame = isDeepStrictEqual(totals, mirror.totals);
    mirror.totals = totals;
    if (!isSame) this.options.onChange?.(remote);
  }
}

async function close(mirror: Mirror): Promise<void> {
  if (mirror.measuring !== null) clearTimeout(mirror.measuring);
  await mirror.sweeper[Symbol.asyncDispose]();
  await mirror.outputs[Symbol.asyncDispose]();
}

/** Without a recorded end, the remote may have more records, however old the last write is. */
function isUnfinished(_: string, isEnded: boolean): boolean {
  return !isEnded;
}

async function describe(
  folder: JournalFolder,
  progress: KernelProgress | undefined
): Promise<MirroredKernel> {
  const ended = await readEnded(folder.kernelDir).catch(() => null);
  return {
    kernelId: folder.kernelId,
    name: folder.specName,
    lastSeq: await new JournalReader(folder.journalDir).lastSeq(),
    bytes: bytesOf(folder),
    state: ended ? 'ended' : (progress?.state ?? 'behind'),
    endedAt: ended?.endedAt ?? null,
    wasShutDown: ended?.reason === SHUT_DOWN,
    documents: [...(await documentsOfKernel(folder.kernelDir))]
  };
}
