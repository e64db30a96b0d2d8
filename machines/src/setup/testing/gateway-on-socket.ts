/** For specs: sends requests to a gateway on its unix socket, as the hub does through the tunnel. */
import { request } from 'node:http';
import type { PreparedHost } from '../../machine.js';

export async function requestOnSocket(
  { socketPath, token }: PreparedHost,
  method: string,
  path: string,
  body?: object
): Promise<{ readonly status: number; readonly body: unknown }> {
  return new Promise((resolve, reject) => {
    const headers = {
      host: 'localhost',
      authorization: `token ${token}`,
      'content-type': 'application/json'
    };
    const sent = request({ socketPath, path, method, headers }, response => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          body: text === '' ? null : (JSON.parse(text) as unknown)
        })
      );
    });
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
