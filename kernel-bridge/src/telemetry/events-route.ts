/** The WebSocket `/bridge/v1/events`. */
import { Type } from '@sinclair/typebox';
import {
  MediaMessage,
  StoredRun,
  StoredRunKey,
  StoredRuns,
  StoredRunSummary,
  RunLabels
} from '@tpulab/protocol';
import type { WebSocket } from 'ws';
import type { RouteAccess } from '../http/access-hooks.js';
import { failure, route } from '../http/api-description.js';
import type { App } from '../http/app.js';
import type { ClientToken } from '../http/client-tokens.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import type { EventSource } from './event-source.js';
import { EventSubscriber } from './event-subscriber.js';
import { type EventFilter, eventsOf } from './readable-events.js';

const EVENTS_PATH = '/bridge/v1/events';

/**
 * An upgrade route, in the shape that the server accepts.
 *
 * @param visible the events that the holder of a restricted token may receive
 */
export function eventsRoute(
  source: EventSource,
  gatewayId: string,
  visible: (actor: ClientToken) => EventFilter
) {
  return {
    path: EVENTS_PATH,
    access: ['read'] as RouteAccess,
    subprotocols: [],
    prepare:
      ({ actor }: { readonly actor: ClientToken | null }) =>
      (socket: WebSocket) => {
        const readable = actor === null ? source : eventsOf(source, visible(actor));
        // It lives as long as the socket, through its listeners on the socket.
        new EventSubscriber(socket, readable, gatewayId);
      }
  };
}

/** The routes' part of the archive. */
interface StoredRunSource {
  list(): Promise<StoredRunSummary[]>;
  read(key: string): Promise<StoredRun | null>;
  medium(key: string, id: number): Promise<MediaMessage | null>;
  label(key: string, labels: RunLabels): Promise<StoredRunSummary | null>;
}

export function addRunsRoutes(app: App, runs: StoredRunSource): void {
  app.get(
    '/bridge/v1/runs',
    route(
      'Training runs of this machine, newest first',
      { 200: StoredRuns },
      { description: 'Includes runs of ended kernels; the newest 200 are stored.' }
    ),
    async () => ({ runs: await runs.list() })
  );

  app.get(
    '/bridge/v1/runs/:key',
    route(
      'One run: its metrics, its time split, and the commands it received',
      { 200: StoredRun, 404: failure('No such run is stored.') },
      { params: Type.Object({ key: StoredRunKey }) }
    ),
    async request => {
      const stored = await runs.read(request.params.key);
      if (!stored) throw bridgeError('run_not_found', request.params.key);
      return stored;
    }
  );

  app.get(
    '/bridge/v1/runs/:key/media/:id',
    route(
      'A picture, sound or text that a run has logged',
      { 200: MediaMessage, 404: failure('It is not stored.') },
      { params: Type.Object({ key: StoredRunKey, id: Type.Integer({ minimum: 0 }) }) }
    ),
    async request => {
      const { key, id } = request.params;
      const medium = await runs.medium(key, id);
      if (!medium) throw bridgeError('run_not_found', `${key}/media/${id}`);
      return medium;
    }
  );

  app.patch(
    '/bridge/v1/runs/:key',
    route(
      'Write tags, a note or a group at a run',
      { 200: StoredRunSummary, 404: failure('No such run is stored.') },
      { params: Type.Object({ key: StoredRunKey }), body: RunLabels }
    ),
    async request => {
      const labelled = await runs.label(request.params.key, request.body);
      if (!labelled) throw bridgeError('run_not_found', request.params.key);
      return labelled;
    }
  );
}
