// @ts-check
/** A client of a Jupyter kernel server over the v1 WebSocket subprotocol: the same for the bridge and for jupyter_server. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { PendingRequest, executeContent, header } from './requests.mjs';

const OPEN_DEADLINE_MS = 60_000;

/**
 * @param {{ url: string, token: string, kernelId: string }} where
 * @returns {Promise<import('./target.mjs').OpenTarget>}
 */
export async function openChannels({ url, token, kernelId }) {
  const session = randomUUID();
  const address = `${url.replace(/^http/, 'ws')}/api/kernels/${kernelId}/channels?session_id=${session}`;
  const socket = new WebSocket(address, 'v1.kernel.websocket.jupyter.org', {
    headers: { Authorization: `token ${token}` },
    perMessageDeflate: false
  });
  await once(socket, 'open', { signal: AbortSignal.timeout(OPEN_DEADLINE_MS) });
  const requests = new PendingRequest();
  socket.on('message', data => {
    const { channel, parts } = decode(/** @type {Buffer} */ (data));
    const [messageHeader, parent, , content] = parts;
    requests.see(channel, messageHeader, parent, content);
  });
  return {
    async execute(code) {
      const asked = header(session, 'execute_request');
      const answered = requests.expect(asked.msg_id);
      const start = performance.now();
      socket.send(encode('shell', [asked, {}, {}, executeContent(code)]));
      return (await answered) - start;
    },
    async close() {
      const closed = once(socket, 'close');
      socket.close();
      await closed;
    }
  };
}

/**
 * @param {string} channel
 * @param {object[]} parts
 */
function encode(channel, parts) {
  const pieces = [Buffer.from(channel), ...parts.map(part => Buffer.from(JSON.stringify(part)))];
  const count = pieces.length + 1;
  const head = Buffer.alloc(8 * (count + 1));
  head.writeBigUInt64LE(BigInt(count));
  let offset = head.length;
  for (let i = 0; i < count; i++) {
    head.writeBigUInt64LE(BigInt(offset), 8 * (i + 1));
    offset += pieces[i]?.length ?? 0;
  }
  return Buffer.concat([head, ...pieces]);
}

/**
 * @param {Buffer} frame
 * @returns {{ channel: string, parts: any[] }}
 */
function decode(frame) {
  const count = Number(frame.readBigUInt64LE());
  const offset = (/** @type {number} */ i) => Number(frame.readBigUInt64LE(8 * (i + 1)));
  const piece = (/** @type {number} */ i) => frame.toString('utf8', offset(i), offset(i + 1));
  if (count < 6) throw new Error(`A frame of ${count} offsets cannot hold a message.`);
  return { channel: piece(0), parts: [1, 2, 3, 4].map(i => JSON.parse(piece(i))) };
}
