/** The runs that make folders the same: one a remote, with its progress. */
import type { SyncPlan, SyncRequest, SyncStatus } from '@tpulab/protocol';
import type { RemoteShell } from '../contracts.js';
import { RemoteProblem } from '../remote-error.js';
import type { Remote } from '../remote.js';
import { foldersOf, planSync, runSync } from './folder-sync.js';

const IDLE: SyncStatus = {
  state: 'idle',
  localFolder: '',
  remoteFolder: '',
  files: 0,
  totalFiles: 0,
  bytes: 0,
  totalBytes: 0,
  error: null
};
/** Comparing a folder with very many files. */
const PLAN_MS = 5 * 60_000;

interface Job {
  status: SyncStatus;
  readonly abort: AbortController;
  readonly ended: Promise<void>;
}

export class SyncJobs implements AsyncDisposable {
  readonly #jobs = new Map<string, Job>();

  status(name: string): SyncStatus {
    return this.#jobs.get(name)?.status ?? IDLE;
  }

  /** @throws RemoteProblem */
  async plan(remote: Remote, request: SyncRequest, gone: AbortSignal): Promise<SyncPlan> {
    const folders = await foldersOf(request);
    const signal = AbortSignal.any([gone, AbortSignal.timeout(PLAN_MS)]);
    return withShell(remote, shell => planSync({ request, folders, shell, signal }));
  }

  /** Begins; how it goes is in `status`. @throws RemoteProblem */
  async start(remote: Remote, request: SyncRequest): Promise<SyncStatus> {
    const { name } = remote;
    if (this.status(name).state === 'running') {
      throw new RemoteProblem(
        'sync_running',
        `A folder is being synced with ${name}; wait for its end, or cancel it.`
      );
    }
    requireConnected(remote);
    const folders = await foldersOf(request);
    const abort = new AbortController();
    const status: SyncStatus = {
      ...IDLE,
      state: 'running',
      localFolder: folders.local,
      remoteFolder: folders.remote
    };
    const run = async (): Promise<void> => {
      // Let the job be known before anything happens.
      await Promise.resolve();
      const { signal } = abort;
      await withShell(remote, async shell => {
        const plan = await planSync({ request, folders, shell, signal });
        this.#change(name, { totalFiles: plan.files, totalBytes: plan.bytes });
        await runSync({
          request,
          folders,
          shell,
          signal,
          onChange: ({ action, bytes }) => {
            if (action === 'delete') return;
            const { files, bytes: done } = this.status(name);
            this.#change(name, { files: files + 1, bytes: done + bytes });
          }
        });
      });
      this.#change(name, { state: 'done' });
    };
    const ended = run().catch((error: unknown) => {
      if (abort.signal.aborted) this.#change(name, { state: 'cancelled' });
      else this.#change(name, { state: 'failed', error: told(error) });
    });
    this.#jobs.set(name, { status, abort, ended });
    return status;
  }

  /** Resolves when the run has ended. */
  async cancel(name: string): Promise<void> {
    const job = this.#jobs.get(name);
    job?.abort.abort(new Error('cancelled'));
    await job?.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#jobs.keys()].map(name => this.cancel(name)));
  }

  #change(name: string, fields: Partial<SyncStatus>): void {
    const job = this.#jobs.get(name);
    if (job) job.status = { ...job.status, ...fields };
  }
}

function withShell<T>(remote: Remote, use: (shell: RemoteShell) => Promise<T>): Promise<T> {
  requireConnected(remote);
  return remote.withShell(use) ?? Promise.reject(notConnected(remote));
}

function requireConnected(remote: Remote): void {
  if (remote.phase.kind !== 'connected') throw notConnected(remote);
}

function notConnected({ name }: Remote): RemoteProblem {
  return new RemoteProblem('remote_lost', `${name} is not connected; connect it, then sync again.`);
}

function told(error: unknown): { code: string; message: string } {
  return error instanceof RemoteProblem
    ? { code: error.code, message: error.message }
    : { code: 'sync_failed', message: error instanceof Error ? error.message : String(error) };
}
