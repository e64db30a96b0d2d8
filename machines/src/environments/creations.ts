/** Environments that clients of the gateway have requested: one creation at a time for each environment, with its progress. */
import type { EnvironmentCreation, EnvironmentInfo } from '@tpulab/protocol';
import { NamedJobs, type RunningJob } from '@tpulab/platform/named-jobs.js';
import type { EnvironmentCatalog } from './catalog.js';
import { EnvironmentError } from './environment-error.js';
import { create } from './operations.js';
import { UvProgress } from './uv.js';

type Creation = RunningJob<EnvironmentCreation>;

export class EnvironmentCreations implements AsyncDisposable {
  readonly #jobs = new NamedJobs<EnvironmentCreation>(jobErrorOf);

  constructor(private readonly catalog: EnvironmentCatalog) {}

  list(): Promise<EnvironmentInfo[]> {
    return this.catalog.list();
  }

  status(name: string): EnvironmentCreation {
    return this.#jobs.status(name) ?? blank(name, 'idle');
  }

  /** Starts a creation, or joins the running one; an existing up-to-date environment finishes immediately. */
  start(name: string): EnvironmentCreation {
    if (this.status(name).state === 'running') return this.status(name);
    return this.#jobs.start(name, blank(name, 'running'), creation => this.#create(name, creation));
  }

  /** Resolves after the creation has ended; no file of it is left. */
  cancel(name: string): Promise<void> {
    return this.#jobs.cancel(name);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#jobs[Symbol.asyncDispose]();
  }

  async #create(name: string, creation: Creation): Promise<void> {
    const uv = new UvProgress();
    const progress = {
      stage: (title: string) => beginStage(creation, title),
      detail: (text: string) => {
        const detail = uv.line(text);
        const { fraction, transfer } = uv;
        creation.change({ detail: detail === '' ? null : detail, fraction, transfer });
      },
      stageDone: () => endStage(creation, 'done')
    };
    try {
      await create(this.catalog, name, { force: false, progress, signal: creation.signal });
      endStage(creation, 'done');
      creation.change({ detail: null, fraction: 1, transfer: null });
    } catch (error) {
      endStage(creation, 'failed');
      creation.change({ detail: null, fraction: null, transfer: null });
      throw error;
    }
  }
}

function beginStage(creation: Creation, title: string): void {
  endStage(creation, 'done');
  const stage = { title, state: 'running', startedAt: Date.now(), endedAt: null } as const;
  creation.change({ detail: null, stages: [...creation.status.stages, stage] });
}

function endStage(creation: Creation, state: 'done' | 'failed'): void {
  const stages = creation.status.stages.map(stage =>
    stage.state === 'running' ? { ...stage, state, endedAt: Date.now() } : stage
  );
  creation.change({ stages });
}

function blank(name: string, state: EnvironmentCreation['state']): EnvironmentCreation {
  return { name, state, stages: [], detail: null, error: null, fraction: null, transfer: null };
}

function jobErrorOf(error: unknown): { code: string; message: string } {
  return error instanceof EnvironmentError
    ? { code: error.code, message: error.message }
    : {
        code: 'internal',
        message: `The environment could not be created: ${error instanceof Error ? error.message : String(error)}.`
      };
}
