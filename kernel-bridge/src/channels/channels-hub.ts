/** The attached clients of all kernels. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Logger } from 'pino';
import type { Kernel } from '../kernels/kernel.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { FEED_LIMITS, type FeedLimits } from './client-feed.js';
import { LEASE_TIMES, type LeaseTimes } from './client-leases.js';
import { CLOSE } from '../http/close-codes.js';
import { CONFIRMATION_DEFAULTS, type ConfirmationOptions } from './confirmations.js';
import { HELD_LIMITS, type HeldLimits } from './held-requests.js';
import { type AttachRequest, type ClientChange, KernelChannels, LEASES_FILE } from './kernel-channels.js';
import { UNSENT_LIMIT_BYTES, UnsentBudget } from './unsent-budget.js';

/** What can be tuned; every part has defaults. */
export interface ChannelsTuning {
  readonly confirmation?: Partial<ConfirmationOptions> | undefined;
  readonly limits?: Partial<FeedLimits> | undefined;
  readonly leases?: Partial<LeaseTimes> | undefined;
  readonly held?: Partial<HeldLimits> | undefined;
  /** What all slow clients together may have waiting in memory. */
  readonly unsentLimitBytes?: number | undefined;
}

export interface ChannelsHubOptions extends ChannelsTuning {
  readonly registry: KernelRegistry;
  readonly log: Logger;
}

export class ChannelsHub implements Disposable {
  readonly #options: ChannelsHubOptions;
  readonly #kernels = new Map<string, KernelChannels>();
  readonly #listeners = new Set<(change: ClientChange) => void>();
  readonly #listening: Disposable;
  readonly #unsent: UnsentBudget;

  constructor(options: ChannelsHubOptions) {
    this.#options = options;
    this.#unsent = new UnsentBudget(options.unsentLimitBytes ?? UNSENT_LIMIT_BYTES);
    this.#listening = options.registry.listen({
      // What clients of an earlier gateway hold ends in its time, though none of them may come back.
      added: kernel => {
        if (existsSync(path.join(kernel.directory, LEASES_FILE))) this.#of(kernel);
      },
      removed: kernel => void this.#kernels.delete(kernel.id)
    });
  }

  /** Takes over the socket; it is closed when the kernel or the gateway ends. */
  attach(kernel: Kernel, request: AttachRequest): void {
    this.#of(kernel).attach(request);
  }

  clients(): ClientChange[] {
    return [...this.#kernels.values()].flatMap(channels => channels.clients());
  }

  listen(listener: (change: ClientChange) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** Closes all sockets with a code that makes clients come back to the next gateway. */
  [Symbol.dispose](): void {
    this.#listening[Symbol.dispose]();
    for (const channels of this.#kernels.values()) channels.close(CLOSE.gatewayStopping);
    this.#kernels.clear();
  }

  #of(kernel: Kernel): KernelChannels {
    const existing = this.#kernels.get(kernel.id);
    if (existing) return existing;
    const { confirmation, limits, leases, held, log } = this.#options;
    const channels = new KernelChannels({
      kernel,
      confirmation: { ...CONFIRMATION_DEFAULTS, ...confirmation },
      limits: { ...FEED_LIMITS, ...limits },
      leaseTimes: { ...LEASE_TIMES, ...leases },
      heldLimits: { ...HELD_LIMITS, ...held },
      unsent: this.#unsent,
      log,
      clientChanged: change => {
        for (const listener of this.#listeners) listener(change);
      }
    });
    this.#kernels.set(kernel.id, channels);
    return channels;
  }
}
