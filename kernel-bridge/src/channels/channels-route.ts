/** `GET /api/kernels/<id>/channels?session_id=…&resume=…`: the WebSocket of Jupyter's clients. */
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { InvalidRequestError } from '../kernels/errors.js';
import type { ChannelsHub } from './channels-hub.js';
import type { AttachRequest } from './kernel-channels.js';
import { V1_SUBPROTOCOL } from './client-connection.js';
import { checkSessionId } from './position-store.js';

export const CHANNELS_PATH = '/api/kernels/:kernelId/channels';

/** An upgrade route, in the shape that the server takes. */
export function channelsRoute(registry: KernelRegistry, hub: ChannelsHub) {
  return {
    path: CHANNELS_PATH,
    subprotocols: [V1_SUBPROTOCOL],
    prepare: ({ params, query }: { params: Readonly<Record<string, string>>; query: URLSearchParams }) => {
      const kernel = registry.get(params['kernelId'] ?? '');
      const sessionId = query.get('session_id');
      const request = {
        sessionId: sessionId === null || sessionId === '' ? null : checkSessionId(sessionId),
        resume: parseSeq(query.get('resume'))
      };
      return (socket: AttachRequest['socket'], stream: AttachRequest['stream']): void => {
        // The kernel may have been removed during the handshake.
        if (registry.find(kernel.id) === kernel) hub.attach(kernel, { ...request, socket, stream });
        else socket.close(1000, 'the kernel was shut down');
      };
    }
  };
}

function parseSeq(text: string | null): number | null {
  if (text === null) return null;
  const seq = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
  if (Number.isNaN(seq))
    throw new InvalidRequestError('resume must be a seq of the journal, a whole number from 0.');
  return seq;
}
