/** The WebSocket `/bridge/v1/events`. */
import type { WebSocket } from 'ws';
import type { EventSource } from './event-source.js';
import { EventSubscriber } from './event-subscriber.js';

export const EVENTS_PATH = '/bridge/v1/events';

/** An upgrade route, in the shape that the server takes. */
export function eventsRoute(source: EventSource, gatewayId: string) {
  return {
    path: EVENTS_PATH,
    subprotocols: [],
    prepare: () => (socket: WebSocket) => {
      // It lives as long as the socket, by the listeners that it adds there.
      new EventSubscriber(socket, source, gatewayId);
    }
  };
}
