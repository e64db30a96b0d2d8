/** A job of the gateway on this machine, polled while it runs. No DOM. */
import type { JobState } from '@tpulab/protocol';
import { Changing } from '../platform/changing.js';
import type { RemotesApi } from './remotes-api.js';

const POLL_MS = 1_000;

/** Nothing is requested before one of its methods is called. */
export class FollowedJob<Status extends { readonly state: JobState }> extends Changing {
  /** @param api requests to the gateway of this machine */
  constructor(
    private readonly api: Pick<RemotesApi, 'request'>,
    private readonly route: string
  ) {
    super();
  }

  /** Null until the gateway has reported it. */
  get status(): Status | null {
    return this._status;
  }

  /** Why the last request failed; it is repeated while the job runs. */
  get problem(): string | null {
    return this._problem;
  }

  refresh(): Promise<void> {
    return this.poll('GET');
  }

  /** Requests a change of the job's results; the answer is its status. */
  change(body: unknown): Promise<void> {
    return this.poll('PUT', body);
  }

  /** Begins, or joins a running job. @param before nothing begins when it fails */
  start(body?: unknown, before?: () => Promise<void>): Promise<void> {
    return this.poll('POST', body, before);
  }

  stop(): Promise<void> {
    return this.poll('DELETE');
  }

  /** Ends the polling, not the job. */
  override dispose(): void {
    clearTimeout(this._timer);
    super.dispose();
  }

  /** One request after the other: a late answer to an earlier one would hide that a job has begun. */
  private poll(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    body?: unknown,
    before?: () => Promise<void>
  ): Promise<void> {
    this._last = this._last
      .then(async () => {
        clearTimeout(this._timer);
        if (this.isDisposed) return;
        try {
          await before?.();
          this._status = await this.api.request<Status>(method, this.route, body);
          this._problem = null;
        } catch (error) {
          this._problem = error instanceof Error ? error.message : String(error);
        }
      })
      .then(() => {
        if (this.isDisposed) return;
        if (this._status?.state === 'running') this._timer = setTimeout(() => void this.refresh(), POLL_MS);
        this.changed.emit();
      });
    return this._last;
  }

  private _status: Status | null = null;
  private _problem: string | null = null;
  private _last: Promise<void> = Promise.resolve();
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
