/** What follows a failure: whether a remote is tried again, when, and what is shown until then. */
import type { RemoteError } from '@tpulab/protocol';
import { isCloudSilent, recoveryOf, RemoteProblem, RemoteQueued, remoteErrorOf } from './remote-error.js';
import type { RemotePhase } from './remote-report.js';
import type { RemoteRecord } from './remote-store.js';

/** Doubling from the first to the longest, for ever. */
const FIRST_MS = 1_000;
const LONGEST_MS = 30_000;

/** The machine is no longer there, with all that was only there. */
const PREEMPTED: ReadonlySet<string> = new Set(['remote_preempted', 'colab_reclaimed']);

/** How a machine looks that was preempted, between its end and the one that is created under its name. */
const NOT_BACK: ReadonlySet<string> = new Set([
  'remote_preempted',
  'remote_machine_stopped',
  'gcloud_not_found'
]);

/** Whose connection has failed. */
export interface FailedRemote {
  readonly name: string;
  readonly record: Pick<RemoteRecord, 'source' | 'lastConnectedAt'>;
  readonly phase: RemotePhase;
  /** Between two checks of a machine that the cloud has not handed over yet. */
  readonly queuePollMs: number;
  /** Whether the cloud had said, when it was last heard of, that the machine is being taken back. */
  readonly isBeingPreempted: boolean;
  /** Whether it is a Colab runtime that was connected before. */
  hasRuntime(): Promise<boolean>;
}

export interface NextAttempt {
  /** What the failure means to people. */
  readonly error: RemoteError | null;
  /** What it is from now on; null: as before. */
  readonly phase: RemotePhase | null;
  /** The connection that stands is given up. */
  readonly isLinkOver: boolean;
  /** Until it is tried again; null: only a person can help. */
  readonly waitMs: number | null;
}

/** The failures of one connection, since its last login. */
export class Failures {
  #queuedAt: number | null = null;
  /** Why it was preempted, while it is looked for until another machine has its name. */
  #preempted: RemoteError | null = null;

  loggedIn(): void {
    this.#queuedAt = null;
    this.#preempted = null;
  }

  /** A machine that is waited for is looked for again without a change that anybody sees. */
  isAwaited({ kind }: RemotePhase): boolean {
    return kind === 'queued' || (kind === 'preempted' && this.#preempted !== null);
  }

  /** @param count failures in a row, this one among them */
  async next(remote: FailedRemote, reason: unknown, count: number): Promise<NextAttempt> {
    const failure = remote.isBeingPreempted ? asPreempted(remote.name, reason) : reason;
    if (failure instanceof RemoteQueued) return this.#inQueue(remote, failure);
    const error = remoteErrorOf(failure);
    if (this.#mayBeRecreated(remote, failure))
      return this.#untilAnother(remote, error, isCloudSilent(failure));
    this.#preempted = null;
    // A person who connects for the first time waits for an answer and not for a better time, unless the cloud made them wait anyway.
    const isFirst =
      remote.record.lastConnectedAt === null && this.#queuedAt === null && !(await remote.hasRuntime());
    const isSilence = this.#queuedAt !== null && error.code === 'gcloud_login';
    if ((recoveryOf(failure) === 'person' && !isSilence) || isFirst) {
      const kind = PREEMPTED.has(error.code) ? 'preempted' : 'failed';
      return { error, phase: { kind, error }, isLinkOver: true, waitMs: null };
    }
    const waitMs = waitBefore(count);
    const phase: RemotePhase = { kind: 'reconnecting', error, nextAttemptAt: Date.now() + waitMs };
    return { error, phase, isLinkOver: false, waitMs };
  }

  /** A machine of Google Cloud that was preempted is often created again under its name; it is connected then, unasked. */
  #mayBeRecreated({ record }: FailedRemote, failure: unknown): boolean {
    if (record.source.kind !== 'gcloud' || !(failure instanceof RemoteProblem)) return false;
    if (failure.code === 'remote_preempted') return true;
    return this.#preempted !== null && (NOT_BACK.has(failure.code) || isCloudSilent(failure));
  }

  /** @param isSilent Google Cloud could not be asked, which is news only to a person who has asked for it */
  #untilAnother({ phase, queuePollMs }: FailedRemote, error: RemoteError, isSilent: boolean): NextAttempt {
    if (error.code === 'remote_preempted') this.#preempted = error;
    const shown = isSilent ? error : (this.#preempted ?? error);
    const isNews = phase.kind !== 'preempted' || (!isSilent && phase.error.code !== shown.code);
    return {
      error,
      phase: isNews ? { kind: 'preempted', error: shown } : null,
      isLinkOver: true,
      waitMs: queuePollMs
    };
  }

  /** Waiting for hours is how most machines with TPUs come, also at the first connection. */
  #inQueue({ queuePollMs }: FailedRemote, { queue }: RemoteQueued): NextAttempt {
    this.#queuedAt ??= queue.since ?? Date.now();
    const phase: RemotePhase = {
      kind: 'queued',
      queue: { state: queue.state, since: this.#queuedAt },
      nextAttemptAt: Date.now() + queuePollMs
    };
    return { error: null, phase, isLinkOver: false, waitMs: queuePollMs };
  }
}

/**
 * @param failures attempts that have failed in a row, from 1
 * @param random 0 to 1: the wait is cut by up to a quarter, so that several remotes do not try in step
 */
export function waitBefore(failures: number, random = Math.random()): number {
  const full = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, 10));
  return Math.max(FIRST_MS, Math.round(full * (1 - random / 4)));
}

/** A machine that was to be taken back and does not answer any more has been. */
function asPreempted(name: string, reason: unknown): unknown {
  const isAway = reason instanceof RemoteProblem && /^remote_(unreachable|name_unknown)$/.test(reason.code);
  if (!isAway) return reason;
  return new RemoteProblem(
    'remote_preempted',
    `${name} was preempted as announced, and no longer answers. Create another machine, then connect again. The output of its kernels is saved on this computer.`,
    { cause: reason }
  );
}
