/**
 * Reads a kernel's output back: by cell (`/bridge/v1/kernels/:id/outputs`), and as messages (`…/journal`). Both work for
 * kernels that have ended, as long as their journal is stored. The protocol describes the answers.
 */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { Type } from '@sinclair/typebox';
import {
  JOURNAL_STREAM_TYPE,
  JournalPage,
  JournalQuery,
  JournalStreamQuery,
  OutputsPage,
  OutputsQuery
} from '@tpulab/protocol';
import type { OutputsOfKernels, OutputsRequest } from './index.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { actorOf, kernelIn } from '../http/access-hooks.js';
import type { ClientToken } from '../http/client-tokens.js';
import type { Execution } from './execution.js';
import { failure, notJson, route } from '../http/api-description.js';
import type { App } from '../http/app.js';
import { executionText, readJournalPage } from './journal-page.js';
import { journalStream } from './journal-stream.js';

const NO_JOURNAL = failure('No such kernel is running, and no journal of one is stored.');

/** @param visible which executions the holder of a read-only token may see */
export function addOutputsRoutes(
  app: App,
  outputs: OutputsOfKernels,
  registry: KernelRegistry,
  visible: (actor: ClientToken, kernelId: string) => Promise<(execution: Execution) => boolean>
): void {
  app.get(
    '/bridge/v1/kernels/:kernelId/outputs',
    route(
      'Outputs by cell, as a notebook would show them',
      {
        200: OutputsPage,
        304: Type.Null({ description: 'nothing has changed since the response with this ETag' }),
        404: NO_JOURNAL
      },
      {
        access: ['read', kernelIn],
        description:
          'Reads the journal of a running or ended kernel. Continue live with `resume=<until>` on the channels socket, or request again with `since=<until>`.',
        params: Type.Object({ kernelId: Type.String() }),
        querystring: OutputsQuery
      }
    ),
    async (request, reply) => {
      const { kernelId } = request.params;
      const actor = actorOf(request.raw);
      const view = actor?.rights?.level === 'read' ? { visible: await visible(actor, kernelId) } : null;
      const etag = etagOf(request.query, await outputs.extent(kernelId));
      // The contents of a view also depend on the notebook file.
      if (view === null && request.headers['if-none-match'] === etag)
        return reply.code(304).header('etag', etag).send(null);
      const closed = new AbortController();
      reply.raw.once('close', () => {
        closed.abort(new Error('the client has disconnected'));
      });
      try {
        const page = await outputs.read(
          kernelId,
          { ...outputsRequestOf(request.query), ...view },
          closed.signal
        );
        return await reply.header('etag', etagOf(request.query, page)).send(page);
      } catch (error) {
        if (!closed.signal.aborted) throw error;
        // The client has disconnected.
        return reply.hijack();
      }
    }
  );

  app.get(
    '/bridge/v1/kernels/:kernelId/outputs/text',
    route(
      'All text of one execution, however long',
      { 200: notJson('text', 'text/plain; charset=utf-8'), 404: NO_JOURNAL },
      {
        params: Type.Object({ kernelId: Type.String() }),
        querystring: Type.Object({
          msgId: Type.String({ description: 'of its execute_request' }),
          from: Type.Optional(Type.Integer({ minimum: 1, description: 'record where it begins' }))
        })
      }
    ),
    async (request, reply) => {
      const { kernelId } = request.params;
      const { until } = await outputs.extent(kernelId);
      const journalDir = await outputs.withJournal(kernelId, dir => Promise.resolve(dir));
      const text = executionText(journalDir, { ...request.query, until });
      return reply.header('content-type', 'text/plain; charset=utf-8').send(Readable.from(text));
    }
  );

  app.get(
    '/bridge/v1/kernels/:kernelId/journal',
    route(
      "A range of a kernel's journal",
      { 200: JournalPage, 404: NO_JOURNAL },
      {
        access: ['run', kernelIn],
        params: Type.Object({ kernelId: Type.String() }),
        querystring: JournalQuery
      }
    ),
    async request => {
      const { kernelId } = request.params;
      const { from = 1, limit = 1000 } = request.query;
      return outputs.withJournal(kernelId, async dir => {
        const { until, isOver } = await outputs.extent(kernelId);
        return readJournalPage(dir, { from, limit, lastSeq: until, isOver });
      });
    }
  );

  app.get(
    '/bridge/v1/kernels/:kernelId/journal/stream',
    route(
      "A kernel's journal as it grows, for a server that keeps a mirror of it",
      {
        200: notJson('frames as `protocol/src/mirror.ts` describes them', JOURNAL_STREAM_TYPE),
        404: NO_JOURNAL
      },
      { params: Type.Object({ kernelId: Type.String() }), querystring: JournalStreamQuery }
    ),
    async (request, reply) => {
      const { kernelId } = request.params;
      const { from = 1, checksum } = request.query;
      const kernel = registry.find(kernelId) ?? null;
      const journalDir = await outputs.withJournal(kernelId, dir => Promise.resolve(dir));
      const closed = new AbortController();
      reply.raw.once('close', () => closed.abort(new Error('the client has disconnected')));
      const frames = journalStream({ journalDir, kernel, from, checksum, signal: closed.signal });
      return reply
        .header('content-type', JOURNAL_STREAM_TYPE)
        .send(Readable.from(frames, { highWaterMark: 1 }));
    }
  );
}

export function outputsRequestOf({ cell, ...rest }: OutputsQuery): OutputsRequest {
  const cells = cell === undefined ? null : new Set(typeof cell === 'string' ? [cell] : cell);
  return { cells, ...rest };
}

/** The same request gets a different answer only when the journal has grown, or the kernel has ended. */
function etagOf(query: OutputsQuery, { until, alive }: { until: number; alive: boolean }): string {
  const parameters = Object.entries(query).sort(([a], [b]) => (a < b ? -1 : 1));
  const hash = createHash('sha256').update(JSON.stringify(parameters)).digest('hex').slice(0, 16);
  return `"${until}-${alive ? 'alive' : 'ended'}-${hash}"`;
}
