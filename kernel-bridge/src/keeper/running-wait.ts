/** Waits for a kernel that was asked to start again: for the next process, or, after a crash, one after that. */
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import { KERNEL_START_MS } from '../keeper-protocol/contract.js';
import type { KernelState } from './kernel-state.js';

export class RunningWait {
  readonly #checks = new Set<() => void>();

  constructor(private readonly state: KernelState) {}

  /** To be called when the state has changed. */
  look(): void {
    this.#checks.forEach(check => check());
  }

  /** Resolves when a process answers; rejects with `kernel_dead` or `kernel_start_timeout`. */
  running(): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (error?: KeeperError): void => {
        clearTimeout(timer);
        this.#checks.delete(check);
        if (error === undefined) {
          resolve();
        } else {
          reject(error);
        }
      };
      const check = (): void => {
        const { executionState, reason } = this.state;
        if (executionState === 'dead') {
          settle(
            new KeeperError('kernel_dead', `The kernel did not start again: ${reason}; see its kernel.log.`)
          );
        } else if (executionState === 'idle' || executionState === 'busy') {
          settle();
        }
      };
      const timer = setTimeout(
        () =>
          settle(
            new KeeperError(
              'kernel_start_timeout',
              `The kernel did not answer within ${KERNEL_START_MS} ms; see its kernel.log.`
            )
          ),
        KERNEL_START_MS
      );
      this.#checks.add(check);
      check();
    });
  }
}
