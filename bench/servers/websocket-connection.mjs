// @ts-check
/** A client of a Jupyter kernel server over the v1 WebSocket subprotocol: the same for all servers. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { WebSocket } from 'ws';
import { decodeFrame, encodeFrame, header, jsonParts } from './messages.mjs';

const OPEN_DEADLINE_MS = 60_000;
const CLOSE_DEADLINE_MS = 5_000;
const SUBPROTOCOL = 'v1.kernel.websocket.jupyter.org';

/**
 * @param {{ url: string, token: string, kernelId: string, query?: string, socketPath?: string }} where `socketPath`: the server's unix socket
 * @returns {Promise<import('./server.mjs').Connection>}
 */
export async function openWebSocket({ url, token, kernelId, query = '', socketPath }) {
  const session = randomUUID();
  const address = `${url.replace(/^http/, 'ws')}/api/kernels/${kernelId}/channels?session_id=${session}${query}`;
  const socket = new WebSocket(address, SUBPROTOCOL, {
    headers: { Authorization: `token ${token}` },
    ...(socketPath === undefined ? {} : { createConnection: () => connect(socketPath) }),
    perMessageDeflate: false,
    skipUTF8Validation: true
  });
  /** @type {import('./server.mjs').Listener | null} */
  let see = null;
  // Before the socket is open: messages may come in the packet that opens it.
  socket.on('message', data => {
    const { channel, parts } = decodeFrame(/** @type {Buffer} */ (data));
    see?.(channel, parts);
  });
  await once(socket, 'open', { signal: AbortSignal.timeout(OPEN_DEADLINE_MS) });
  if (socket.protocol !== SUBPROTOCOL) throw new Error(`${address} does not speak ${SUBPROTOCOL}.`);
  return {
    session,
    listen(listener) {
      see = listener;
    },
    send(channel, msgType, content, buffers = []) {
      const requested = header(session, msgType);
      const frame = encodeFrame(channel, [...jsonParts(requested, content), ...buffers]);
      return new Promise((resolve, reject) => {
        socket.send(frame, error => {
          if (error) reject(error);
          else resolve(requested.msg_id);
        });
      });
    },
    async close() {
      if (socket.readyState === WebSocket.CLOSED) return;
      const closed = once(socket, 'close');
      const timer = setTimeout(() => socket.terminate(), CLOSE_DEADLINE_MS);
      socket.close();
      await closed;
      clearTimeout(timer);
    }
  };
}
