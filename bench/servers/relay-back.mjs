// @ts-check
/**
 * The back of the bare relay: a kernel's shell and iopub on one side, the front on the other. Arguments: connection file,
 * path of the socket for the front. It signs and verifies, because every client of a kernel must; it stores and decides nothing.
 */
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { createSigner, decodeV1, encodeV1 } from '../../kernel-bridge/lib/jupyter/index.js';
import { ZmtpSocket } from '../../kernel-bridge/lib/jupyter/zmtp/index.js';
import { cutFrames, putFrame } from './relay-frames.mjs';

const [, , connectionFile = '', path = ''] = process.argv;
const info = JSON.parse(await readFile(connectionFile, 'utf8'));
const signer = createSigner(info.signature_scheme, info.key);
/** @type {import('node:net').Socket | null} */
let front = null;

/** @param {'shell' | 'iopub'} channel @param {'DEALER' | 'SUB'} type */
const open = (channel, type) =>
  new ZmtpSocket({
    type,
    endpoint: `ipc://${info.ip}-${info[`${channel}_port`]}`,
    identity: type === 'DEALER' ? 'relay' : '',
    message: frames => {
      if (front) putFrame(front, encodeV1(signer.verify(channel, frames)));
    },
    failed: error => console.error(error)
  });
const shell = open('shell', 'DEALER');
open('iopub', 'SUB');
const server = createServer(socket => {
  front = socket;
  socket.setNoDelay?.(true);
  socket.on(
    'data',
    cutFrames(frame => shell.send(signer.sign(decodeV1(frame).parts)))
  );
  socket.on('close', () => process.exit());
});
server.listen(path, () => console.log('{}'));
