/**
 * What the gateway knows of one kernel beyond passing messages on: who debugs, whose the subshells are, who is asked on stdin,
 * what is asked beside a running cell, and how much waits while the kernel starts. It looks at what passes, and says which requests of a client do not.
 */
import type { JournalRecord } from '../journal/record.js';
import type { KernelSnapshot } from '../keeper-protocol/contract.js';
import { ClientLeases, type LeaseActions, type LeaseTimes } from './client-leases.js';
import { DebugTurns } from './debug-turns.js';
import { type HeldLimits, HeldRequests } from './held-requests.js';
import { watchedMessage } from './message-watch.js';
import { PendingInput } from './pending-input.js';
import type { ClientRequest, Refusal } from './refusal.js';
import { type StateRequestActions, StateRequests } from './state-requests.js';
import { SubshellWatch } from './subshell-watch.js';

export interface KernelRulesOptions {
  readonly leasesFile: string;
  readonly leaseTimes: LeaseTimes;
  readonly heldLimits: HeldLimits;
  readonly actions: LeaseActions;
  readonly state: StateRequestActions;
  snapshot(): KernelSnapshot;
}

export class KernelRules implements Disposable {
  readonly #options: KernelRulesOptions;
  readonly #leases: ClientLeases;
  readonly #debug: DebugTurns;
  readonly #subshells: SubshellWatch;
  readonly #input = new PendingInput();
  readonly #held: HeldRequests;
  readonly #state: StateRequests;

  constructor(options: KernelRulesOptions) {
    this.#options = options;
    this.#leases = new ClientLeases(options.leasesFile, options.leaseTimes, options.actions);
    this.#debug = new DebugTurns(this.#leases);
    this.#subshells = new SubshellWatch(this.#leases);
    this.#held = new HeldRequests(options.heldLimits);
    this.#state = new StateRequests(options.state);
    this.kernelChanged();
    this.#leases.clientsChanged();
  }

  /** A record of the journal, in order. */
  passed(record: JournalRecord): void {
    this.#state.passed(record);
    const message = watchedMessage(record);
    if (!message) return;
    this.#debug.watched(message);
    this.#subshells.watched(message);
    this.#input.watched(message);
    this.#state.watched(message);
  }

  /** Whether a request that is not refused goes to the kernel beside the running cell, and not as it is. */
  detour(request: ClientRequest): boolean {
    return this.#state.take(request);
  }

  /** Why a request of a client does not go to the kernel; null when it does. `owns`: the sessions that the client speaks for. */
  refuse(request: ClientRequest, owns: (session: string) => boolean): Refusal | null {
    const isAttached = (session: string): boolean => this.#options.actions.isAttached(session);
    const refusal = this.#debug.refuse(request, owns) ?? this.#input.refuse(request, owns, isAttached);
    if (refusal) return refusal;
    if (this.#held.take(request.bytes, this.#isStarting)) return null;
    return {
      code: 'requests_held',
      message:
        'Too many requests are waiting for this kernel, which is still starting. Send this one again when the kernel is idle, or restart the kernel.'
    };
  }

  clientsChanged(): void {
    this.#leases.clientsChanged();
  }

  kernelChanged(): void {
    const { kernelSession } = this.#options.snapshot();
    if (kernelSession !== null && this.#leases.kernelIs(kernelSession)) {
      this.#input.forget();
      this.#state.restarted();
    }
    if (!this.#isStarting) this.#held.release();
  }

  [Symbol.dispose](): void {
    this.#leases[Symbol.dispose]();
    this.#state[Symbol.dispose]();
  }

  get #isStarting(): boolean {
    const { executionState } = this.#options.snapshot();
    return executionState === 'starting' || executionState === 'restarting';
  }
}
