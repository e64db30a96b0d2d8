/**
 * Shuts down kernels that have been unused for long. Off unless a time is set; even then a kernel that is working or
 * starting is spared, and a kernel with clients unless that is configured. Jupyter's names: `cull_idle_timeout`,
 * `cull_interval`, `cull_connected`. Jupyter's `cull_busy` has no counterpart here: a long training is exactly what must
 * not be ended.
 */
import type { Logger } from 'pino';
import { type Clock, ClockJumps } from '@tpulab/platform/clock.js';
import type { Kernel } from './kernel.js';
import type { KernelRegistry } from './kernel-registry.js';

export interface CullingOptions {
  /** Seconds without a message from or to the kernel; 0: kernels are never culled. */
  readonly idleTimeoutS: number;
  /** Seconds between two checks. */
  readonly intervalS: number;
  /**
   * Whether kernels with clients are culled too. A sleeping laptop's connection counts as a client until it has been silent
   * for a while.
   */
  readonly connected: boolean;
}

export const CULLING_DEFAULTS: CullingOptions = { idleTimeoutS: 0, intervalS: 300, connected: false };

interface CulledRegistry extends Pick<KernelRegistry, 'list' | 'remove'> {
  find(id: string): Kernel | undefined;
}

export class KernelCulling implements Disposable {
  readonly #timer: NodeJS.Timeout | null;
  #checking: Promise<void> | null = null;
  readonly #jumps: ClockJumps;
  /** Unix milliseconds from which idle time counts: after the clock was set, nobody knows how long a kernel was unused. */
  #idleCountsFrom = 0;

  constructor(
    private readonly registry: CulledRegistry,
    private readonly options: CullingOptions,
    private readonly log: Logger,
    clock?: Clock
  ) {
    this.#jumps = new ClockJumps(clock);
    this.#timer =
      options.idleTimeoutS > 0 ? setInterval(() => void this.check(), options.intervalS * 1000) : null;
  }

  /** One check of all kernels; joins a running check. Never rejects. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => (this.#checking = null));
    return this.#checking;
  }

  [Symbol.dispose](): void {
    if (this.#timer) clearInterval(this.#timer);
  }

  async #check(): Promise<void> {
    if (this.#jumps.hasJumped()) this.#idleCountsFrom = this.#jumps.clock.now();
    await Promise.all(
      this.registry.list().map(async kernel => {
        try {
          if (!(await this.#isIdle(kernel))) return;
          this.log.info({ kernelId: kernel.id }, 'a kernel that nobody uses is shut down');
          await this.registry.remove(kernel.id);
        } catch (error) {
          this.log.warn({ kernelId: kernel.id, err: error }, 'an unused kernel could not be shut down');
        }
      })
    );
  }

  async #isIdle(kernel: Kernel): Promise<boolean> {
    // Uses the keeper's current state, because the last pushed state may be older than the last message.
    const { executionState, lastActivity } = kernel.isUnreachable
      ? kernel.snapshot
      : ((await kernel.currentSnapshot()) ?? { executionState: 'busy', lastActivity: 0 });
    if (executionState !== 'idle' && executionState !== 'dead') return false;
    if (kernel.connections > 0 && !this.options.connected) return false;
    if (this.registry.find(kernel.id) !== kernel) return false;
    return (
      this.#jumps.clock.now() - Math.max(lastActivity, this.#idleCountsFrom) >=
      this.options.idleTimeoutS * 1000
    );
  }
}
