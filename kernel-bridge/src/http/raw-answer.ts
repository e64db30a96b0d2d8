/** An ordinary HTTP answer on a connection that the web framework does not have, or no longer. */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { BridgeError } from './errors.js';
import { errorBody, errorHeaders } from './error-answers.js';

export function answerRaw(stream: Duplex, error: BridgeError, cors: Record<string, string>): void {
  const body = JSON.stringify(errorBody(error));
  const headers = {
    ...cors,
    ...errorHeaders(error),
    'cache-control': 'no-store',
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close'
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  stream.end(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}\r\n${lines.join('')}\r\n${body}`);
}
