/** Sends one of our own requests to a gateway, over TCP or over its unix socket. */
import { request as httpRequest } from 'node:http';
import { socketPathOf } from './unix-listening.js';

const MAX_ANSWER_BYTES = 256 * 1024 * 1024;

interface GatewayAnswer {
  readonly status: number;
  readonly body: string;
}

interface GatewayRequest {
  /** As in `gateway.json`. */
  readonly url: string;
  /** Null: no token is sent. */
  readonly token: string | null;
  readonly method: string;
  /** Relative to the URL, without a slash before it. */
  readonly path: string;
  readonly timeoutMs: number;
  /** Sent as JSON. */
  readonly json?: unknown;
}

export async function requestGateway({
  url,
  token,
  method,
  path,
  timeoutMs,
  json
}: GatewayRequest): Promise<GatewayAnswer> {
  const onSocket = socketPathOf(url);
  const body = json === undefined ? undefined : JSON.stringify(json);
  const headers = {
    ...(token === null ? {} : { authorization: `token ${token}` }),
    ...(body === undefined ? {} : { 'content-type': 'application/json' })
  };
  const signal = AbortSignal.timeout(timeoutMs);
  if (!onSocket) {
    const response = await fetch(new URL(path, url), {
      method,
      headers,
      signal,
      ...(body === undefined ? {} : { body })
    });
    return { status: response.status, body: await response.text() };
  }
  return new Promise((resolve, reject) => {
    const options = {
      socketPath: onSocket.socketPath,
      path: onSocket.base + path,
      method,
      headers: { ...headers, host: 'localhost' },
      signal
    };
    const sent = httpRequest(options, response => {
      const chunks: Buffer[] = [];
      let size = 0;
      response.on('data', (chunk: Buffer) => {
        size += chunk.length;
        if (size > MAX_ANSWER_BYTES) response.destroy(new Error('the answer is too large'));
        else chunks.push(chunk);
      });
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString('utf8') })
      );
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
