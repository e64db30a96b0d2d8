/** One small request of our own to the gateway of a remote, through the tunnel. */
import { type Agent, request } from 'node:http';

const ANSWER_MS = 15_000;
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

export function askGateway(question: GatewayQuestion): Promise<{ status: number; body: unknown }> {
  const { socketPath, token, path, timeoutMs = ANSWER_MS, agent } = question;
  const signal = AbortSignal.any([question.signal, AbortSignal.timeout(timeoutMs)]);
  return new Promise((resolve, reject) => {
    const body = question.put === undefined ? null : JSON.stringify(question.put);
    const headers = {
      host: 'localhost',
      authorization: `token ${token}`,
      ...(body === null
        ? {}
        : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) })
    };
    const method = body === null ? 'GET' : 'PUT';
    const options = { method, socketPath, path, headers, signal, ...(agent ? { agent } : {}) };
    const sent = request(options, response => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > ANSWER_BYTES) response.destroy(new Error('the answer is too large'));
        else chunks.push(chunk);
      });
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        try {
          resolve({ status: response.statusCode ?? 0, body: text === '' ? null : JSON.parse(text) });
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      });
    });
    sent.on('error', reject);
    sent.end(body ?? undefined);
  });
}
