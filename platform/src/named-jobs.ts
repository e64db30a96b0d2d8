/** Work that clients request and monitor: one job per name at a time, and its progress. */
import type { JobError, JobState } from '@tpulab/protocol';

interface JobStatus {
  readonly state: JobState;
  readonly error: JobError;
}

/** A job, from the point of view of its work. */
export interface RunningJob<Status> {
  readonly signal: AbortSignal;
  readonly status: Status;
  change(fields: Partial<Status>): void;
}

interface Job<Status> {
  status: Status;
  readonly abort: AbortController;
  readonly ended: Promise<void>;
}

export class NamedJobs<Status extends JobStatus> implements AsyncDisposable {
  readonly #jobs = new Map<string, Job<Status>>();

  /** @param errorOf the error that clients get for a failure */
  constructor(private readonly errorOf: (error: unknown) => NonNullable<JobError>) {}

  /** null: no job of this name was ever started. */
  status(name: string): Status | null {
    return this.#jobs.get(name)?.status ?? null;
  }

  /** The work begins when this has returned; its end, its failure or its cancellation becomes the state. */
  start(name: string, begun: Status, work: (job: RunningJob<Status>) => Promise<void>): Status {
    const abort = new AbortController();
    const change = (fields: Partial<Status>): void => {
      job.status = { ...job.status, ...fields };
    };
    const end = (state: JobState, error: JobError = null): void => {
      job.status = { ...job.status, state, error };
    };
    const run = async (): Promise<void> => {
      // The job becomes visible before any work happens.
      await Promise.resolve();
      await work({
        signal: abort.signal,
        change,
        get status() {
          return job.status;
        }
      });
      end('done');
    };
    const ended = run().catch((error: unknown) => {
      if (abort.signal.aborted) end('cancelled');
      else end('failed', this.errorOf(error));
    });
    const job: Job<Status> = { status: begun, abort, ended };
    this.#jobs.set(name, job);
    return begun;
  }

  /** Resolves when the job has ended. */
  async cancel(name: string): Promise<void> {
    this.#jobs.get(name)?.abort.abort(new Error('cancelled'));
    await this.ended(name);
  }

  async ended(name: string): Promise<void> {
    await this.#jobs.get(name)?.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#jobs.keys()].map(name => this.cancel(name)));
  }
}
