/** Runs that were kept (`/bridge/v1/runs`), those of kernels that ended too. */
import { Type } from '@sinclair/typebox';
import { KeptRun, KeptRunKey, KeptRuns, type KeptRunSummary } from '@tpulab/protocol';
import { RunNotFoundError } from '../http/errors.js';
import { failure } from '../http/api-description.js';
import type { App } from '../http/app.js';

/** What the routes need of the archive. */
export interface KeptRunSource {
  list(): Promise<KeptRunSummary[]>;
  read(key: string): Promise<KeptRun | null>;
}

export function addRunsRoutes(app: App, runs: KeptRunSource): void {
  app.get(
    '/bridge/v1/runs',
    {
      schema: {
        summary: 'Training runs of this machine, newest first',
        description: 'Includes runs of ended kernels; the newest 200 are stored.',
        response: { 200: KeptRuns }
      }
    },
    async () => ({ runs: await runs.list() })
  );

  app.get(
    '/bridge/v1/runs/:key',
    {
      schema: {
        summary: 'One run: its metrics, its time split, and the commands it received',
        params: Type.Object({ key: KeptRunKey }),
        response: { 200: KeptRun, 404: failure('No such run is stored.') }
      }
    },
    async request => {
      const kept = await runs.read(request.params.key);
      if (!kept) throw new RunNotFoundError(request.params.key);
      return kept;
    }
  );
}
