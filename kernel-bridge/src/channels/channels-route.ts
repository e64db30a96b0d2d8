/**
 * `GET /api/kernels/<id>/channels`: the WebSocket of Jupyter's clients. Queries beside Jupyter's `session_id`: `resume=SEQ`, the
 * last record that the client has; `last=CHANNEL:MSG_ID`, repeatable, the last message that it has of a channel;
 * `predecessor=SESSION_ID`, repeatable, a session whose replies and questions it takes over; `bounded=true`, on numbered channels,
 * outputs at a pace that a page can show (`LiveBound`).
 */
import { kernelIn, type RouteAccess } from '../http/access-hooks.js';
import type { ClientToken } from '../http/client-tokens.js';
import type { UpgradeRequest } from '../http/upgrades.js';
import type { ReaderView } from './reader-rules.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { InvalidRequestError, NotReadyError } from '../http/errors.js';
import { isSessionId, MAX_SESSION_ID } from '../journal/index.js';
import type { ChannelsHub } from './channels-hub.js';
import type { AttachRequest } from './kernel-channels.js';
import { SUBPROTOCOLS } from './subprotocols.js';
import { type ChannelName, isChannelName } from '../jupyter/index.js';

export const CHANNELS_PATH = '/api/kernels/:kernelId/channels';

/** Pages that were loaded again since the cell began. */
const MAX_PREDECESSORS = 8;

/** An upgrade route, in the shape that the server takes. */
export function channelsRoute(
  registry: KernelRegistry,
  hub: ChannelsHub,
  viewOf: (actor: ClientToken, kernelId: string) => Promise<ReaderView>
) {
  return {
    path: CHANNELS_PATH,
    access: ['read', kernelIn] as RouteAccess,
    subprotocols: SUBPROTOCOLS,
    prepare: ({ params, query, actor, may }: UpgradeRequest) => {
      const kernel = registry.get(params['kernelId'] ?? '');
      // Clients come back after a 503. What this one has, and what it missed, can only be told with the keeper's help.
      if (kernel.isPresumed) throw new NotReadyError(kernel.cannotBeReached);
      const sessionId = query.get('session_id');
      const request = {
        sessionId: sessionId === null || sessionId === '' ? null : checkSessionId(sessionId),
        predecessors: predecessorsOf(query),
        resume: parseSeq(query.get('resume')),
        last: lastMessagesOf(query),
        isBounded: query.get('bounded') === 'true',
        maySteer: () => actor === null || may('steer', { kind: 'kernel', id: kernel.id })
      };
      const open =
        (view: ReaderView | null) =>
        (socket: AttachRequest['socket'], stream: AttachRequest['stream']): void => {
          // The kernel may have been removed during the handshake.
          if (registry.find(kernel.id) === kernel) hub.attach(kernel, { ...request, view, socket, stream });
          else socket.close(1000, 'the kernel was shut down');
        };
      if (actor === null || may('run', { kind: 'kernel', id: kernel.id })) return open(null);
      return viewOf(actor, kernel.id).then(open);
    }
  };
}

function checkSessionId(sessionId: string): string {
  if (!isSessionId(sessionId))
    throw new InvalidRequestError(`session_id must be at most ${MAX_SESSION_ID} printable characters.`);
  return sessionId;
}

function predecessorsOf(query: URLSearchParams): string[] {
  const sessions = query.getAll('predecessor');
  if (sessions.length > MAX_PREDECESSORS)
    throw new InvalidRequestError(`At most ${MAX_PREDECESSORS} predecessors can be named.`);
  return sessions.map(checkSessionId);
}

function lastMessagesOf(query: URLSearchParams): Map<ChannelName, string> {
  const last = new Map<ChannelName, string>();
  for (const each of query.getAll('last')) {
    const [, channel = '', id = ''] = /^([a-z]+):(.{1,256})$/.exec(each) ?? [];
    if (!isChannelName(channel) || id === '')
      throw new InvalidRequestError('last must be a channel and a msg_id, for example last=iopub:1234.');
    last.set(channel, id);
  }
  return last;
}

function parseSeq(text: string | null): number | null {
  if (text === null) return null;
  const seq = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
  if (Number.isNaN(seq))
    throw new InvalidRequestError('resume must be a seq of the journal, a whole number from 0.');
  return seq;
}
