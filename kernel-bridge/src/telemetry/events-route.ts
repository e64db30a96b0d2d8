/** The WebSocket `/bridge/v1/events`. */
import type { WebSocket } from 'ws';
import type { EventSource } from './event-source.js';
import { EventSubscriber } from './event-subscriber.js';
import { type EventFilter, eventsOf } from './readable-events.js';
import type { RouteAccess } from '../http/access-hooks.js';
import type { ClientToken } from '../http/client-tokens.js';

export const EVENTS_PATH = '/bridge/v1/events';

/**
 * An upgrade route, in the shape that the server takes.
 *
 * @param visible what the holder of a narrowed token may hear of
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
        // It lives as long as the socket, by the listeners that it adds there.
        new EventSubscriber(socket, readable, gatewayId);
      }
  };
}
