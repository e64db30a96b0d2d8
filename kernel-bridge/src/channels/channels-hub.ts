/** The attached clients of all kernels. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Logger } from 'pino';
import type { Kernel } from '../kernels/kernel.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { FEED_LIMITS, type FeedLimits } from './client-feed.js';
import { LEASE_TIMES, type LeaseTimes } from './client-leases.js';
import { CLOSE, type UpgradeRequest } from '../http/upgrades.js';
import { CONFIRMATION_DEFAULTS, type ConfirmationOptions } from './confirmations.js';
import { QUEUE_LIMITS, type QueueLimits } from './start-queue.js';
import { type AttachRequest, type ClientChange, KernelChannels, LEASES_FILE } from './kernel-channels.js';
import { UNSENT_LIMIT_BYTES, UnsentBudget } from './unsent-budget.js';
import { kernelIn, type RouteAccess } from '../http/access-hooks.js';
import type { ClientToken } from '../http/client-tokens.js';
import type { ReaderView } from './reader-rules.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import { isSessionId, MAX_SESSION_ID } from '../journal/index.js';
import { SUBPROTOCOLS } from './subprotocols.js';
import { type ChannelName, isChannelName } from '../jupyter/index.js';

/** Tuning options; each has a default. */
export interface ChannelsTuning {
  readonly confirmation?: Partial<ConfirmationOptions> | undefined;
  readonly limits?: Partial<FeedLimits> | undefined;
  readonly leases?: Partial<LeaseTimes> | undefined;
  readonly queueLimits?: Partial<QueueLimits> | undefined;
  /** Limit of the unsent bytes of all slow clients together. */
  readonly unsentLimitBytes?: number | undefined;
}

interface ChannelsHubOptions extends ChannelsTuning {
  readonly registry: KernelRegistry;
  readonly log: Logger;
}

export class ChannelsHub implements Disposable {
  readonly #kernels = new Map<string, KernelChannels>();
  readonly #listeners = new Set<(change: ClientChange) => void>();
  readonly #listening: Disposable;
  readonly #unsent: UnsentBudget;

  constructor(private readonly options: ChannelsHubOptions) {
    this.#unsent = new UnsentBudget(options.unsentLimitBytes ?? UNSENT_LIMIT_BYTES);
    this.#listening = options.registry.listen({
      // Leases of clients of an earlier gateway expire on time even if the clients do not return.
      added: kernel => {
        if (existsSync(path.join(kernel.directory, LEASES_FILE))) this.#of(kernel);
      },
      removed: kernel => void this.#kernels.delete(kernel.id)
    });
  }

  /** Takes ownership of the socket, which is closed when the kernel or the gateway ends. */
  attach(kernel: Kernel, request: AttachRequest): void {
    this.#of(kernel).attach(request);
  }

  clients(): ClientChange[] {
    return [...this.#kernels.values()].flatMap(channels => channels.clients());
  }

  listen(listener: (change: ClientChange) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** Closes all sockets with a code that makes clients reconnect to the next gateway. */
  [Symbol.dispose](): void {
    this.#listening[Symbol.dispose]();
    for (const channels of this.#kernels.values()) channels.close(CLOSE.gatewayStopping);
    this.#kernels.clear();
  }

  #of(kernel: Kernel): KernelChannels {
    const existing = this.#kernels.get(kernel.id);
    if (existing) return existing;
    const { confirmation, limits, leases, queueLimits, log } = this.options;
    const channels = new KernelChannels({
      kernel,
      confirmation: { ...CONFIRMATION_DEFAULTS, ...confirmation },
      limits: { ...FEED_LIMITS, ...limits },
      leaseTimes: { ...LEASE_TIMES, ...leases },
      queueLimits: { ...QUEUE_LIMITS, ...queueLimits },
      unsent: this.#unsent,
      log,
      clientChanged: change => {
        for (const listener of this.#listeners) listener(change);
      }
    });
    this.#kernels.set(kernel.id, channels);
    return channels;
  }
}

/**
 * `GET /api/kernels/<id>/channels`: the WebSocket of Jupyter clients. Query parameters in addition to Jupyter's
 * `session_id`: `resume=SEQ`, the last record that the client has; `last=CHANNEL:MSG_ID`, repeatable, the last message that
 * it has on a channel; `predecessor=SESSION_ID`, repeatable, a session whose replies and stdin questions the client takes
 * over; `bounded=true`, on numbered channels, outputs at a rate that a page can show (`LiveBound`).
 */
const CHANNELS_PATH = '/api/kernels/:kernelId/channels';

/** Limit of predecessor sessions, one for each reload of a page since the cell began. */
const MAX_PREDECESSORS = 8;

/** An upgrade route, in the shape that the server accepts. */
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
      // Clients reconnect after a 503. Only the keeper can determine the client's position and the messages that it missed.
      if (kernel.isPresumed) throw bridgeError('not_ready', kernel.unreachableMessage);
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
    throw bridgeError(
      'invalid_request',
      `session_id must be at most ${MAX_SESSION_ID} printable characters.`
    );
  return sessionId;
}

function predecessorsOf(query: URLSearchParams): string[] {
  const sessions = query.getAll('predecessor');
  if (sessions.length > MAX_PREDECESSORS)
    throw bridgeError('invalid_request', `At most ${MAX_PREDECESSORS} predecessors can be named.`);
  return sessions.map(checkSessionId);
}

function lastMessagesOf(query: URLSearchParams): Map<ChannelName, string> {
  const last = new Map<ChannelName, string>();
  for (const each of query.getAll('last')) {
    const [, channel = '', id = ''] = /^([a-z]+):(.{1,256})$/.exec(each) ?? [];
    if (!isChannelName(channel) || id === '')
      throw bridgeError(
        'invalid_request',
        'last must be a channel and a msg_id, for example last=iopub:1234.'
      );
    last.set(channel, id);
  }
  return last;
}

function parseSeq(text: string | null): number | null {
  if (text === null) return null;
  const seq = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
  if (Number.isNaN(seq))
    throw bridgeError('invalid_request', 'resume must be a seq of the journal, a whole number from 0.');
  return seq;
}
