/** The local copies of the journals of a remote's kernels: readable while the remote is unreachable, or after it was lost. */
import { Type } from '@sinclair/typebox';
import {
  JournalPage,
  JournalQuery,
  MirroredKernels,
  OutputsPage,
  OutputsQuery,
  RemoteName
} from '@tpulab/protocol';
import { bridgeError } from '@tpulab/platform/errors.js';
import type { OutputsOfKernels } from '../../outputs/index.js';
import type { Mirrors } from './mirrors.js';
import { failure, route } from '../../http/api-description.js';
import type { App } from '../../http/app.js';
import { readJournalPage } from '../../outputs/journal-page.js';
import { outputsRequestOf } from '../../outputs/outputs-routes.js';

const Params = Type.Object({ name: RemoteName });
const KernelParams = Type.Object({ name: RemoteName, kernelId: Type.String() });
const NO_JOURNAL = failure('Nothing from such a kernel is on this machine.');

export function addMirrorRoutes(app: App, mirrors: Mirrors): void {
  /** Clients choose the names: nothing is created for a remote that does not exist. */
  const outputsOf = async (name: string, kernelId: string): Promise<OutputsOfKernels> => {
    if (!(await mirrors.has(name))) throw bridgeError('kernel_not_found', kernelId);
    return mirrors.outputs(name);
  };

  app.get(
    '/bridge/v1/machines/:name/mirror',
    route(
      'The kernels of a machine whose journal is on this machine',
      { 200: MirroredKernels },
      { params: Params }
    ),
    async request => {
      const { name } = request.params;
      return { kernels: (await mirrors.has(name)) ? await mirrors.kernels(name) : [] };
    }
  );

  app.get(
    '/bridge/v1/machines/:name/mirror/:kernelId/outputs',
    route(
      'Outputs by cell, from the mirror',
      { 200: OutputsPage, 404: NO_JOURNAL },
      { params: KernelParams, querystring: OutputsQuery }
    ),
    async request => {
      const { name, kernelId } = request.params;
      return (await outputsOf(name, kernelId)).read(kernelId, outputsRequestOf(request.query));
    }
  );

  app.get(
    '/bridge/v1/machines/:name/mirror/:kernelId/journal',
    route(
      'A range of the mirror',
      { 200: JournalPage, 404: NO_JOURNAL },
      { params: KernelParams, querystring: JournalQuery }
    ),
    async request => {
      const { name, kernelId } = request.params;
      const { from = 1, limit = 1000 } = request.query;
      const outputs = await outputsOf(name, kernelId);
      return outputs.withJournal(kernelId, async dir => {
        const { until } = await outputs.extent(kernelId);
        // The copy may grow as soon as the remote is reachable again.
        return readJournalPage(dir, { from, limit, lastSeq: until, isOver: false });
      });
    }
  );

  app.delete(
    '/bridge/v1/machines/:name/mirror',
    route(
      'Removes what is on this machine of the journals of a machine',
      { 204: Type.Null({ description: 'nothing is left' }) },
      { params: Params }
    ),
    async (request, reply) => {
      const { name } = request.params;
      if (await mirrors.has(name)) await mirrors.remove(name);
      return reply.code(204).send(null);
    }
  );
}
