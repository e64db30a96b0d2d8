/** One small request of our own to the gateway of a remote, through the tunnel. */
import type { Agent } from 'node:http';
import { requestGateway } from '../http/gateway-request.js';
import { socketUrl } from '../http/unix-listening.js';

const ANSWER_MS = 15_000;
/** The other side says itself how much it sends. */
const ANSWER_BYTES = 4 * 1024 * 1024;

export interface GatewayQuestion {
  readonly socketPath: string;
  readonly token: string;
  readonly path: string;
  /** Sent as the body of a `PUT`; absent: a `GET`. */
  readonly put?: object;
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
  readonly agent?: Agent;
}

export async function askGateway(question: GatewayQuestion): Promise<{ status: number; body: unknown }> {
  const { socketPath, path, put, timeoutMs = ANSWER_MS, ...rest } = question;
  const { status, body } = await requestGateway({
    ...rest,
    url: socketUrl(socketPath),
    method: put === undefined ? 'GET' : 'PUT',
    path: path.slice(1),
    timeoutMs,
    maxBytes: ANSWER_BYTES,
    json: put
  });
  return { status, body: body === '' ? null : JSON.parse(body) };
}
