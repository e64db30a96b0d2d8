// @ts-check
/** The front of the bare relay: a WebSocket whose frames go to the back unchanged, and back. Arguments: path of the back's socket. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { WebSocketServer } from 'ws';
import { cutFrames, putFrame } from './relay-frames.mjs';

const back = connect({ path: process.argv[2] ?? '' });
await once(back, 'connect');
const http = createServer();
const sockets = new WebSocketServer({
  server: http,
  perMessageDeflate: false,
  handleProtocols: offered => [...offered][0] ?? false
});
/** @type {import('ws').WebSocket | null} */
let client = null;
sockets.on('connection', socket => {
  client = socket;
  socket.on('message', data => putFrame(back, /** @type {Buffer} */ (data)));
});
back.on(
  'data',
  cutFrames(frame => client?.send(frame))
);
back.on('close', () => process.exit());
http.listen(0, '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (http.address());
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }));
});
