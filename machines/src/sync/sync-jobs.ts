/** The running syncs: one per remote, with its progress. */
import type { SyncPlan, SyncRequest, SyncStatus } from '@tpulab/protocol';
import { NamedJobs } from '@tpulab/platform/named-jobs.js';
import { deadline } from '@tpulab/platform/waiting.js';
import type { RemoteShell } from '../machine.js';
import { RemoteProblem } from '../remote-error.js';
import { foldersOf, NAMED, planSync, runSync } from './folder-sync.js';

const IDLE: SyncStatus = {
  state: 'idle',
  localFolder: '',
  remoteFolder: '',
  files: 0,
  totalFiles: 0,
  bytes: 0,
  totalBytes: 0,
  leftOut: [],
  leftOutCount: 0,
  error: null
};
/** Time limit for comparing a folder with very many files. */
const PLAN_MS = 5 * 60_000;

interface SyncedRemote {
  readonly name: string;
  readonly phase: { readonly kind: string };
  /** null if there is no connection. */
  withShell<T>(use: (shell: RemoteShell) => Promise<T>): Promise<T> | null;
}

export class SyncJobs implements AsyncDisposable {
  readonly #jobs = new NamedJobs<SyncStatus>(jobErrorOf);

  status(name: string): SyncStatus {
    return this.#jobs.status(name) ?? IDLE;
  }

  /** @throws RemoteProblem */
  async plan(remote: SyncedRemote, request: SyncRequest, closed: AbortSignal): Promise<SyncPlan> {
    using within = deadline(PLAN_MS, closed);
    const { signal } = within;
    return await withShell(remote, async shell => {
      const folders = await foldersOf(request, shell, signal);
      return planSync({ request, folders, shell, signal });
    });
  }

  /** Starts a sync; `status` shows its progress. @throws RemoteProblem */
  async start(remote: SyncedRemote, request: SyncRequest): Promise<SyncStatus> {
    const { name } = remote;
    const folders = await withShell(remote, shell => foldersOf(request, shell, AbortSignal.timeout(PLAN_MS)));
    if (this.status(name).state === 'running') {
      throw new RemoteProblem(
        'sync_running',
        `A folder is being synced with ${name}; wait until it ends, or cancel it.`
      );
    }
    const begun = {
      ...IDLE,
      state: 'running',
      localFolder: folders.local,
      remoteFolder: folders.remote
    } as const;
    return this.#jobs.start(name, begun, job =>
      withShell(remote, async shell => {
        const run = { request, folders, shell, signal: job.signal };
        const plan = await planSync(run, 'ignored');
        job.change({ totalFiles: plan.files, totalBytes: plan.bytes });
        await runSync({
          ...run,
          onChange: ({ action, bytes }) => {
            if (action === 'delete') return;
            job.change({ files: job.status.files + 1, bytes: job.status.bytes + bytes });
          },
          onLeftOut: one => {
            const { leftOut, leftOutCount } = job.status;
            job.change({ leftOutCount: leftOutCount + 1, leftOut: [...leftOut, one].slice(0, NAMED) });
          }
        });
      })
    );
  }

  /** Resolves after the run has ended. */
  cancel(name: string): Promise<void> {
    return this.#jobs.cancel(name);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#jobs[Symbol.asyncDispose]();
  }
}

function withShell<T>(remote: SyncedRemote, use: (shell: RemoteShell) => Promise<T>): Promise<T> {
  requireConnected(remote);
  return remote.withShell(use) ?? Promise.reject(notConnected(remote));
}

function requireConnected(remote: SyncedRemote): void {
  if (remote.phase.kind !== 'connected') throw notConnected(remote);
}

function notConnected({ name }: SyncedRemote): RemoteProblem {
  return new RemoteProblem('remote_lost', `${name} is not connected; connect it, then sync again.`);
}

function jobErrorOf(error: unknown): { code: string; message: string } {
  return error instanceof RemoteProblem
    ? { code: error.code, message: error.message }
    : { code: 'sync_failed', message: error instanceof Error ? error.message : String(error) };
}
