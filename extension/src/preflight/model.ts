/** The pre-flight check of one notebook: `tpulab check` at the gateway of this machine, and its last report. No DOM. */
import type { ISignal } from '@lumino/signaling';
import { type CheckRequest, checkRoute, type NotebookCheck, type PriceChange } from '@tpulab/protocol';
import { FollowedJob } from '../backends/followed-job.js';
import type { RemotesApi } from '../backends/remotes-api.js';

interface PreflightOptions {
  /** Requests to the gateway of this machine. */
  readonly api: Pick<RemotesApi, 'request'>;
  /** Path of the notebook below the gateway's root folder. */
  readonly path: string;
  /** Writes unsaved changes, because a check reads the file. */
  readonly save: () => Promise<void>;
  /** The file has been written: the report may be of earlier code. */
  readonly saved: ISignal<unknown, unknown>;
}

export class Preflight extends FollowedJob<NotebookCheck> {
  constructor(private readonly options: PreflightOptions) {
    super(options.api, checkRoute(options.path));
  }

  get path(): string {
    return this.options.path;
  }

  get saved(): ISignal<unknown, unknown> {
    return this.options.saved;
  }

  /** The whole last report, as `tpulab check --json` writes it. */
  report(): Promise<unknown> {
    return this.options.api.request('GET', checkRoute(this.path, 'check-reports'));
  }

  setPrices(prices: PriceChange['chipHourUsd']): Promise<void> {
    return this.change({ chipHourUsd: prices } satisfies PriceChange);
  }

  /** Checks the saved file; a notebook that cannot be saved is not checked. */
  check(request: CheckRequest): Promise<void> {
    return this.start(request, this.options.save);
  }
}
