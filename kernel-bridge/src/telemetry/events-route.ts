/** The WebSocket `/bridge/v1/events`. */
import type { WebSocket } from 'ws';
import type { EventSource } from './event-source.js';
import { EventSubscriber } from './event-subscriber.js';
import { eventsOf } from './readable-events.js';

export const EVENTS_PATH = '/bridge/v1/events';

/**
 * An upgrade route, in the shape that the server takes.
 *
 * @param isKernelOf whether a kernel is one of a notebook, which is all that a client may hear of that may read this notebook only
 */
export function eventsRoute(
  source: EventSource,
  gatewayId: string,
  isKernelOf: (notebook: string, kernelId: string) => boolean
) {
  return {
    path: EVENTS_PATH,
    subprotocols: [],
    prepare:
      ({ reads }: { readonly reads: string | null }) =>
      (socket: WebSocket) => {
        const readable = reads === null ? source : eventsOf(source, kernelId => isKernelOf(reads, kernelId));
        // It lives as long as the socket, by the listeners that it adds there.
        new EventSubscriber(socket, readable, gatewayId);
      }
  };
}
