/**
 * The outputs of all kernels of a gateway: running kernels, and kernels whose journal is still stored. The indexes of running
 * kernels follow their journals at low priority: work that no client waits for must not delay messages.
 */
import { stat } from 'node:fs/promises';
import path from 'node:path';
import type { OutputsPage } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { JournalError, JournalReader } from '../journal/index.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import type { Kernel } from '../kernels/kernel.js';
import { isKernelId, type KernelRegistry } from '../kernels/kernel-registry.js';
import type { Execution } from './execution.js';
import { INDEX_FILE } from './index-file.js';
import { KernelOutputs, OutputsClosedError } from './kernel-outputs.js';
import { type Outputs, type OutputsRequest, withoutKernel } from './read-outputs.js';

export interface OutputsOfKernelsOptions {
  /** Contains the folder `kernels`. */
  readonly stateDir: string;
  readonly registry: Pick<KernelRegistry, 'find' | 'list' | 'listen'>;
  readonly log: Logger;
  /** An index is updated when its kernel has sent nothing for this long… */
  readonly quietMs?: number;
  /** …or has sent this many messages. */
  readonly behind?: number;
}

/** Limit of cached indexes of ended kernels that are not being read. */
const MAX_ENDED = 4;

/** The end of a kernel's journal, as far as clients may know it. */
export interface Extent {
  readonly alive: boolean;
  readonly until: number;
  /** The kernel has been removed: nothing is written any more. */
  readonly isOver: boolean;
}

interface Followed {
  readonly outputs: KernelOutputs;
  readonly listening: Disposable;
}

interface Ended {
  readonly outputs: KernelOutputs;
  /** Answers in progress, during which the index must not be closed. */
  readers: number;
}

export class OutputsOfKernels implements AsyncDisposable {
  readonly #running = new Map<Kernel, Followed>();
  /** By id, the most recently requested last. */
  readonly #ended = new Map<string, Ended>();
  #disposed = false;
  readonly #listening: Disposable;

  constructor(private readonly options: OutputsOfKernelsOptions) {
    this.#listening = options.registry.listen({
      added: kernel => {
        // The journal of an ended kernel continues under the same id.
        this.#ended.get(kernel.id)?.outputs.abandon();
        this.#ended.delete(kernel.id);
        this.#follow(kernel);
      },
      removed: kernel => {
        this.#forget(kernel);
      }
    });
    for (const kernel of options.registry.list()) this.#follow(kernel);
  }

  /** Throws `kernel_not_found` when no journal of such a kernel is stored. */
  async extent(kernelId: string): Promise<Extent> {
    const kernel = this.options.registry.find(kernelId);
    // Only up to records that clients may have received: a page resumes from here, and must get the rest.
    if (kernel) return { alive: isAlive(kernel), until: kernel.lastSeq, isOver: false };
    const until = await this.withJournal(kernelId, dir => new JournalReader(dir).lastSeq());
    return { alive: false, until, isOver: true };
  }

  /** Failures of the journal's files become errors that a client may see. */
  async withJournal<T>(kernelId: string, work: (journalDir: string) => Promise<T>): Promise<T> {
    const kernel = this.options.registry.find(kernelId);
    const journal = kernel?.journalDir ?? (await this.#storedJournal(kernelId));
    return readable(kernelId, () => work(journal));
  }

  /** Executions of the kernel's current process, and the newest record included. */
  async executions(kernelId: string): Promise<{ executions: Execution[]; until: number }> {
    const { until } = await this.extent(kernelId);
    const work = (outputs: KernelOutputs) => outputs.executions(until);
    return readable(kernelId, () => this.#withOutputs(kernelId, work));
  }

  async read(kernelId: string, request: OutputsRequest, signal?: AbortSignal): Promise<OutputsPage> {
    const { alive, answer } = await this.#answer(kernelId, request, signal);
    const executions = alive ? answer.executions : answer.executions.map(withoutKernel);
    return { kernelId, alive, ...answer, executions };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    this.#listening[Symbol.dispose]();
    const running = [...this.#running.values()];
    for (const { listening } of running) listening[Symbol.dispose]();
    const all = [...running, ...this.#ended.values()].map(({ outputs }) => outputs);
    this.#running.clear();
    this.#ended.clear();
    await Promise.all(all.map(outputs => outputs[Symbol.asyncDispose]()));
  }

  /** A kernel may end, or return, while its outputs are read: then they are read again from their new location. */
  async #answer(
    kernelId: string,
    request: OutputsRequest,
    signal?: AbortSignal
  ): Promise<{ readonly alive: boolean; readonly answer: Outputs }> {
    for (;;) {
      const { alive, until, isOver } = await this.extent(kernelId);
      const work = (outputs: KernelOutputs): Promise<Outputs> =>
        outputs.read(request, until, { signal, isOver });
      try {
        return { alive, answer: await readable(kernelId, () => this.#withOutputs(kernelId, work)) };
      } catch (error) {
        if (!(error instanceof OutputsClosedError) || this.#disposed) throw error;
      }
    }
  }

  async #withOutputs<T>(kernelId: string, work: (outputs: KernelOutputs) => Promise<T>): Promise<T> {
    const kernel = this.options.registry.find(kernelId);
    if (kernel) return work(this.#follow(kernel).outputs);
    const journal = await this.#storedJournal(kernelId);
    const ended = this.#ended.get(kernelId) ?? {
      outputs: this.#open(kernelId, path.dirname(journal)),
      readers: 0
    };
    this.#ended.delete(kernelId);
    this.#ended.set(kernelId, ended);
    ended.readers++;
    try {
      return await work(ended.outputs);
    } finally {
      ended.readers--;
      await this.#closeIdle();
    }
  }

  /** Closes the indexes unused for the longest; many may be read simultaneously, and each request is answered. */
  async #closeIdle(): Promise<void> {
    const idle = [...this.#ended].filter(([, { readers }]) => readers === 0);
    for (const [kernelId, { outputs }] of idle.slice(0, -MAX_ENDED)) {
      this.#ended.delete(kernelId);
      await outputs[Symbol.asyncDispose]();
    }
  }

  async #storedJournal(kernelId: string): Promise<string> {
    const journal = path.join(this.options.stateDir, 'kernels', kernelId, 'journal');
    const found = isKernelId(kernelId) ? await stat(journal).catch(() => null) : null;
    if (found?.isDirectory() !== true) throw bridgeError('kernel_not_found', kernelId);
    return journal;
  }

  #open(kernelId: string, directory: string): KernelOutputs {
    const { log } = this.options;
    return new KernelOutputs({
      journalDir: path.join(directory, 'journal'),
      indexFile: path.join(directory, INDEX_FILE),
      onSaveFailed: error => {
        log.warn({ kernelId, err: error }, 'the index of outputs could not be saved; it will be rebuilt');
      }
    });
  }

  #follow(kernel: Kernel): Followed {
    const followed = this.#running.get(kernel);
    if (followed !== undefined) return followed;
    const { quietMs = 2000, behind = 20_000, log } = this.options;
    const outputs = this.#open(kernel.id, kernel.directory);
    let timer: NodeJS.Timeout | null = null;
    let unread = 0;
    const catchUp = (): void => {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      unread = 0;
      outputs.catchUp(kernel.lastSeq).catch((error: unknown) => {
        if (this.#running.has(kernel)) log.warn({ kernelId: kernel.id, err: error }, 'outputs not indexed');
      });
    };
    const listener = kernel.listen({
      record: () => {
        unread++;
        if (unread >= behind) catchUp();
        else if (timer === null) timer = setTimeout(catchUp, quietMs).unref();
      }
    });
    const listening = {
      [Symbol.dispose]: () => {
        listener[Symbol.dispose]();
        if (timer !== null) clearTimeout(timer);
      }
    };
    const following = { outputs, listening };
    this.#running.set(kernel, following);
    return following;
  }

  /** The kernel's folder is being removed: nothing may be written to it any more. */
  #forget(kernel: Kernel): void {
    const followed = this.#running.get(kernel);
    if (followed === undefined) return;
    this.#running.delete(kernel);
    followed.listening[Symbol.dispose]();
    followed.outputs.abandon();
  }
}

function isAlive(kernel: Kernel): boolean {
  return !kernel.isUnreachable && kernel.snapshot.executionState !== 'dead';
}

async function readable<T>(kernelId: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof JournalError) throw bridgeError('journal_unreadable', kernelId, error);
    throw error;
  }
}
