/** The reaction to a failure: whether and when a remote is retried, and what is shown until then. */
import type { RemoteError } from '@tpulab/protocol';
import { isCloudSilent, recoveryOf, RemoteProblem, RemoteQueued, remoteErrorOf } from './remote-error.js';
import type { RemotePhase } from './remote-report.js';
import type { RemoteRecord } from './remote-store.js';

/** The wait doubles from the first value to the longest; the number of attempts is unlimited. */
const FIRST_MS = 1_000;
const MAX_MS = 30_000;

/** The machine no longer exists, and all data that was only on it is lost. */
const PREEMPTED: ReadonlySet<string> = new Set(['remote_preempted', 'colab_reclaimed']);

/** Errors of a preempted machine until another machine is created under its name. */
const UNTIL_RECREATED: ReadonlySet<string> = new Set([
  'remote_preempted',
  'remote_machine_stopped',
  'gcloud_not_found'
]);

interface FailedRemote {
  readonly name: string;
  readonly record: Pick<RemoteRecord, 'source' | 'lastConnectedAt'>;
  readonly phase: RemotePhase;
  /** Interval between two checks of a machine that the cloud has not provisioned yet. */
  readonly queuePollMs: number;
  /** Whether the cloud's last notice announced that the machine is being preempted. */
  readonly isBeingPreempted: boolean;
  /** Whether the remote is a Colab runtime that was connected before. */
  hasRuntime(): Promise<boolean>;
}

interface NextAttempt {
  /** The failure as shown to people. */
  readonly error: RemoteError | null;
  /** The new phase; null: unchanged. */
  readonly phase: RemotePhase | null;
  /** The open connection is given up. */
  readonly isConnectionOver: boolean;
  /** Time until the next attempt; null: only a person can help. */
  readonly waitMs: number | null;
}

/** The failures of one connection since its last login. */
export class Failures {
  #queuedAt: number | null = null;
  /** Why the machine was preempted; set until another machine has its name. */
  #preempted: RemoteError | null = null;
  /** The connection was lost during a setup. */
  #wasCut = false;

  loggedIn(): void {
    this.#queuedAt = null;
    this.#preempted = null;
  }

  /** Polling for an expected machine is not shown to people as a change. */
  isAwaited({ kind }: RemotePhase): boolean {
    return kind === 'queued' || (kind === 'preempted' && this.#preempted !== null);
  }

  /** @param count consecutive failures, including this one */
  async next(remote: FailedRemote, reason: unknown, count: number): Promise<NextAttempt> {
    const failure = remote.isBeingPreempted ? asPreempted(remote.name, reason) : reason;
    if (failure instanceof RemoteQueued) return this.#inQueue(remote, failure);
    const error = remoteErrorOf(failure);
    if (this.#mayBeRecreated(remote, failure))
      return this.#untilRecreated(remote, error, isCloudSilent(failure));
    this.#preempted = null;
    // A person who connects for the first time needs an answer instead of a long wait, unless the cloud required a wait
    // anyway or the setup had begun: a long one continues automatically.
    this.#wasCut ||= remote.phase.kind === 'setting-up' && error.code === 'remote_lost';
    const hasWaited = this.#queuedAt !== null || this.#wasCut;
    const isFirst = remote.record.lastConnectedAt === null && !hasWaited && !(await remote.hasRuntime());
    const isSilence = this.#queuedAt !== null && error.code === 'gcloud_login';
    if ((recoveryOf(failure) === 'person' && !isSilence) || isFirst) {
      const kind = PREEMPTED.has(error.code) ? 'preempted' : 'failed';
      return { error, phase: { kind, error }, isConnectionOver: true, waitMs: null };
    }
    const waitMs = waitBefore(count);
    const phase: RemotePhase = { kind: 'reconnecting', error, nextAttemptAt: Date.now() + waitMs };
    return { error, phase, isConnectionOver: false, waitMs };
  }

  /** A preempted machine of Google Cloud is often recreated under its name; it is then connected automatically. */
  #mayBeRecreated({ record }: FailedRemote, failure: unknown): boolean {
    if (record.source.kind !== 'gcloud' || !(failure instanceof RemoteProblem)) return false;
    if (failure.code === 'remote_preempted') return true;
    return this.#preempted !== null && (UNTIL_RECREATED.has(failure.code) || isCloudSilent(failure));
  }

  /** @param isSilent Google Cloud cannot be queried; only a person who requested the connection is notified */
  #untilRecreated({ phase, queuePollMs }: FailedRemote, error: RemoteError, isSilent: boolean): NextAttempt {
    if (error.code === 'remote_preempted') this.#preempted = error;
    const shown = isSilent ? error : (this.#preempted ?? error);
    const isNews = phase.kind !== 'preempted' || (!isSilent && phase.error.code !== shown.code);
    return {
      error,
      phase: isNews ? { kind: 'preempted', error: shown } : null,
      isConnectionOver: true,
      waitMs: queuePollMs
    };
  }

  /** Most machines with TPUs require hours of waiting, even at the first connection. */
  #inQueue({ queuePollMs }: FailedRemote, { queue }: RemoteQueued): NextAttempt {
    this.#queuedAt ??= queue.since ?? Date.now();
    const phase: RemotePhase = {
      kind: 'queued',
      queue: { state: queue.state, since: this.#queuedAt },
      nextAttemptAt: Date.now() + queuePollMs
    };
    return { error: null, phase, isConnectionOver: false, waitMs: queuePollMs };
  }
}

/**
 * @param failures consecutive failed attempts, from 1
 * @param random 0 to 1: shortens the wait by up to a quarter, so that several remotes do not retry in step
 */
export function waitBefore(failures: number, random = Math.random()): number {
  const full = Math.min(MAX_MS, FIRST_MS * 2 ** Math.min(failures - 1, 10));
  return Math.max(FIRST_MS, Math.round(full * (1 - random / 4)));
}

/** If a machine was about to be preempted and no longer answers, it has been preempted. */
function asPreempted(name: string, reason: unknown): unknown {
  const isAway = reason instanceof RemoteProblem && /^remote_(unreachable|name_unknown)$/.test(reason.code);
  if (!isAway) return reason;
  return new RemoteProblem(
    'remote_preempted',
    `${name} was preempted as announced, and no longer answers. Create another machine, then connect again. The output of its kernels is saved on this computer.`,
    { cause: reason }
  );
}
