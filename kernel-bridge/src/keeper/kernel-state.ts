/**
 * The state of a kernel, from the events of its process and its messages. Owns no socket and no timer.
 *
 * starting → running | restarting | dead, running → restarting | dead, restarting → running | restarting | dead,
 * dead → restarting (an explicit restart). While running, a kernel is busy when it has a tracked request.
 */
import { type MessageHeader, parseParentHeader } from '../jupyter/kernel-message.js';
import type { RestorableState } from './checkpoint.js';
import { type ExecutionState, KERNEL_START_MS } from '../keeper-protocol/contract.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';

type Phase = 'starting' | 'running' | 'restarting' | 'dead';

const NEXT: Readonly<Record<Phase, readonly Phase[]>> = {
  starting: ['running', 'restarting', 'dead'],
  running: ['restarting', 'dead'],
  restarting: ['running', 'restarting', 'dead'],
  dead: ['restarting', 'dead']
};

/** Housekeeping requests of clients, which must not make a kernel look busy. */
const UNTRACKED_REQUESTS: ReadonlySet<string> = new Set([
  'kernel_info_request',
  'comm_info_request',
  'debug_request',
  'interrupt_request',
  'shutdown_request',
  'create_subshell_request',
  'delete_subshell_request',
  'list_subshell_request'
]);

interface BusyWith {
  readonly msgId: string;
  /** The header of the request, as the kernel sent it back. */
  readonly header: string;
}

export class KernelState {
  #phase: Phase = 'starting';
  #reason: string | null = null;
  #lastEnd: string | null = null;
  #session: string | null = null;
  /** By subshell, '' being the main one: each runs one request at a time. */
  readonly #busy = new Map<string, BusyWith>();

  /** `onChange` is called after each change of the public state. */
  constructor(private readonly onChange: () => void) {}

  get executionState(): ExecutionState {
    if (this.#phase !== 'running') return this.#phase;
    return this.#busy.size > 0 ? 'busy' : 'idle';
  }

  get reason(): string | null {
    return this.#reason;
  }

  /** How the previous process ended; null if there was none. */
  get lastEnd(): string | null {
    return this.#lastEnd;
  }

  /** `header.session` of the kernel's own messages. */
  get session(): string | null {
    return this.#session;
  }

  /** The running request: the main shell's, if there are several. */
  get busyParent(): string | null {
    return (this.#busy.get('') ?? [...this.#busy.values()][0])?.header ?? null;
  }

  /** The state for a keeper that takes over. */
  get restorable(): RestorableState {
    return {
      ready: this.#phase === 'running',
      session: this.#session,
      busy: [...this.#busy].map(([subshell, { header }]) => [subshell, header])
    };
  }

  /** Restores the state of another keeper of the same process. */
  restore({ ready, session, busy }: RestorableState): void {
    this.#session = session;
    for (const [subshell, header] of busy) {
      const parent = parseParentHeader(Buffer.from(header));
      if (parent !== null) this.#busy.set(subshell, { msgId: parent.msg_id, header });
    }
    if (ready) this.#enter('running', null);
  }

  /** The process has answered. */
  ready(): void {
    this.#enter('running', null);
  }

  /** The process has ended and another one is started, or will be. Its running requests will never end. */
  restarting(reason: string): void {
    this.#enter('restarting', reason);
  }

  dead(reason: string): void {
    this.#enter('dead', reason);
  }

  /** The kernel has sent a message. */
  seenSession(session: string): void {
    if (session !== this.#session) {
      this.#session = session;
      this.onChange();
    }
  }

  /** A `status` message. `parentText` is its unchanged parent header. */
  status(status: string, parent: MessageHeader | null, parentText: string): void {
    if (parent === null || UNTRACKED_REQUESTS.has(parent.msg_type)) return;
    const subshell = parent.subshell_id ?? '';
    if (status === 'busy') {
      // Replaces a request whose idle was lost: a stock kernel may lose messages, and must not stay busy forever.
      this.#busy.set(subshell, { msgId: parent.msg_id, header: parentText });
    } else if (status === 'idle' && this.#busy.get(subshell)?.msgId === parent.msg_id) {
      this.#busy.delete(subshell);
    } else {
      return;
    }
    this.onChange();
  }

  #enter(phase: Phase, reason: string | null): void {
    if (!NEXT[this.#phase].includes(phase)) {
      throw new Error(`A kernel that is ${this.#phase} cannot become ${phase}.`);
    }
    this.#phase = phase;
    this.#reason = reason;
    this.#lastEnd = reason ?? this.#lastEnd;
    if (phase !== 'running') this.#busy.clear();
    this.onChange();
  }
}

/** Waits for a kernel that is restarting: for the next process, or, after a crash, a later one. */
export class RunningWait {
  readonly #checks = new Set<() => void>();

  constructor(private readonly state: KernelState) {}

  /** To be called when the state has changed. */
  check(): void {
    this.#checks.forEach(check => check());
  }

  /** Resolves when a process answers; rejects with `kernel_dead` or `kernel_start_timeout`. */
  running(): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (error?: KeeperError): void => {
        clearTimeout(timer);
        this.#checks.delete(check);
        if (error === undefined) resolve();
        else reject(error);
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
