/** The attached clients of all kernels. */
import type { Logger } from 'pino';
import type { Kernel } from '../kernels/kernel.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { FEED_LIMITS, type FeedLimits } from './client-feed.js';
import { CLOSE } from './close-codes.js';
import { CONFIRMATION_DEFAULTS, type ConfirmationOptions } from './confirmations.js';
import { type AttachRequest, type ClientChange, KernelChannels } from './kernel-channels.js';

export interface ChannelsHubOptions {
  readonly registry: KernelRegistry;
  readonly log: Logger;
  readonly confirmation?: Partial<ConfirmationOptions>;
  readonly limits?: Partial<FeedLimits>;
}

export class ChannelsHub implements Disposable {
  readonly #options: ChannelsHubOptions;
  readonly #kernels = new Map<string, KernelChannels>();
  readonly #listeners = new Set<(change: ClientChange) => void>();
  readonly #listening: Disposable;

  constructor(options: ChannelsHubOptions) {
    this.#options = options;
    this.#listening = options.registry.listen({ removed: kernel => void this.#kernels.delete(kernel.id) });
  }

  /** Takes over the socket; it is closed when the kernel or the gateway ends. */
  attach(kernel: Kernel, request: AttachRequest): void {
    let channels = this.#kernels.get(kernel.id);
    if (!channels) {
      channels = new KernelChannels({
        kernel,
        confirmation: { ...CONFIRMATION_DEFAULTS, ...this.#options.confirmation },
        limits: { ...FEED_LIMITS, ...this.#options.limits },
        log: this.#options.log,
        clientChanged: change => {
          for (const listener of this.#listeners) listener(change);
        }
      });
      this.#kernels.set(kernel.id, channels);
    }
    channels.attach(request);
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
}
