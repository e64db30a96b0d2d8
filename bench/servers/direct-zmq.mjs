// @ts-check
/** The limit: ZeroMQ sockets of the kernel without a server, messages signed and verified as a client must. */
import { createHmac, createSecretKey, randomBytes, timingSafeEqual } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Dealer, Subscriber } from 'zeromq';
import { endChild, startChild } from './child.mjs';
import { header, jsonParts } from './messages.mjs';

const DELIMITER = Buffer.from('<IDS|MSG>');
const PORTS = Object.freeze({ shell_port: 1, iopub_port: 2, stdin_port: 3, control_port: 4, hb_port: 5 });

/**
 * @typedef {object} DirectKernel
 * @property {string} address
 * @property {string} key
 * @property {import('node:child_process').ChildProcess} child
 */

/**
 * Runs the kernel alone, over `ipc://` as under the bridge.
 * @param {import('./server.mjs').Kernel} kernel
 * @param {string} folder
 * @param {string} id
 * @returns {Promise<DirectKernel>}
 */
export async function startDirectKernel(kernel, folder, id) {
  const key = randomBytes(32).toString('hex');
  const connectionFile = join(folder, `${id}.json`);
  const address = join(folder, id);
  const connection = { transport: 'ipc', ip: address, key, signature_scheme: 'hmac-sha256', ...PORTS };
  await writeFile(connectionFile, JSON.stringify(connection), { mode: 0o600 });
  const child = startChild(
    kernel.argv.map(word => word.replace('{connection_file}', connectionFile)),
    { env: { ...process.env, ...kernel.env }, cwd: folder, log: join(folder, `${id}.log`) }
  );
  return { address, key, child };
}

/**
 * @param {import('./server.mjs').Place} place
 * @returns {import('./server.mjs').Server}
 */
export function openDirectZmq({ kernel, folder }) {
  /** @type {Map<string, DirectKernel>} */
  const kernels = new Map();
  /** @type {import('./server.mjs').Connection[]} Open sockets would keep the benchmark running. */
  const connections = [];
  /** @param {string} id */
  const end = async id => {
    const started = kernels.get(id);
    kernels.delete(id);
    if (started) await endChild(started.child);
  };
  return {
    name: 'direct ZeroMQ (Node)',
    pid: null,
    async startKernel() {
      const id = `k${randomBytes(4).toString('hex')}`;
      kernels.set(id, await startDirectKernel(kernel, folder, id));
      return id;
    },
    connect(id) {
      const started = kernels.get(id);
      if (!started) throw new Error(`There is no kernel ${id}.`);
      const connection = openSockets(started);
      connections.push(connection);
      return Promise.resolve(connection);
    },
    endKernel: end,
    async close() {
      await Promise.all(connections.map(connection => connection.close()));
      await Promise.all([...kernels.keys()].map(end));
    }
  };
}

/**
 * @param {DirectKernel} kernel
 * @returns {import('./server.mjs').Connection}
 */
function openSockets({ address, key }) {
  const session = randomBytes(16).toString('hex');
  const secret = createSecretKey(Buffer.from(key));
  const marks = { linger: 0, receiveHighWaterMark: 0 };
  const shell = new Dealer({ ...marks, sendHighWaterMark: 0, routingId: session });
  const iopub = new Subscriber(marks);
  iopub.subscribe();
  shell.connect(`ipc://${address}-${PORTS.shell_port}`);
  iopub.connect(`ipc://${address}-${PORTS.iopub_port}`);

  /** @param {readonly Buffer[]} parts */
  const sign = parts => {
    const hmac = createHmac('sha256', secret);
    for (let i = 0; i < 4; i++) hmac.update(/** @type {Buffer} */ (parts[i]));
    return Buffer.from(hmac.digest('hex'));
  };
  /** @type {import('./server.mjs').Listener | null} */
  let see = null;
  /**
   * @param {'shell' | 'iopub'} channel
   * @param {AsyncIterable<Buffer[]>} socket
   */
  const read = async (channel, socket) => {
    for await (const frames of socket) {
      const start = frames.findIndex(frame => frame.equals(DELIMITER));
      const parts = frames.slice(start + 2);
      const signature = frames[start + 1];
      if (!signature || !timingSafeEqual(signature, sign(parts))) throw new Error('Wrong signature.');
      see?.(channel, parts);
    }
  };
  const readers = [read('shell', shell), read('iopub', iopub)];
  return {
    session,
    listen(listener) {
      see = listener;
    },
    async send(_channel, msgType, content, buffers = []) {
      const requested = header(session, msgType);
      const parts = jsonParts(requested, content);
      await shell.send([DELIMITER, sign(parts), ...parts, ...buffers]);
      return requested.msg_id;
    },
    async close() {
      shell.close();
      iopub.close();
      await Promise.all(readers);
    }
  };
}
