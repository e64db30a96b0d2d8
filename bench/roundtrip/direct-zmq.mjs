// @ts-check
/** The lower bound: ZeroMQ sockets of the kernel without a server, messages signed and parsed as a client must. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Dealer, Subscriber } from 'zeromq';
import { endChild, startChild, until } from './child.mjs';
import { PendingRequest, executeContent, header } from './requests.mjs';

const DELIMITER = '<IDS|MSG>';

/**
 * @param {import('./target.mjs').Kernel} kernel
 * @param {string} folder
 * @returns {Promise<import('./target.mjs').OpenTarget>}
 */
export async function openDirectZmq(kernel, folder) {
  const key = randomBytes(32).toString('hex');
  const session = randomBytes(16).toString('hex');
  const connectionFile = join(folder, 'direct.json');
  const address = join(folder, 'z');
  const ports = { shell_port: 1, iopub_port: 2, stdin_port: 3, control_port: 4, hb_port: 5 };
  const connection = { transport: 'ipc', ip: address, key, signature_scheme: 'hmac-sha256', ...ports };
  await writeFile(connectionFile, JSON.stringify(connection), { mode: 0o600 });
  const child = startChild(
    kernel.argv.map(word => word.replace('{connection_file}', connectionFile)),
    { env: { ...process.env, ...kernel.env }, cwd: folder, log: join(folder, 'direct.log') }
  );

  const shell = new Dealer({ linger: 0, sendHighWaterMark: 0, receiveHighWaterMark: 0, routingId: session });
  const iopub = new Subscriber({ linger: 0, receiveHighWaterMark: 0 });
  iopub.subscribe();
  shell.connect(`ipc://${address}-${ports.shell_port}`);
  iopub.connect(`ipc://${address}-${ports.iopub_port}`);
  const requests = new PendingRequest();

  /** @param {Buffer[]} parts */
  const sign = parts => {
    const hmac = createHmac('sha256', key);
    for (const part of parts) hmac.update(part);
    return Buffer.from(hmac.digest('hex'));
  };
  /**
   * @param {'shell' | 'iopub'} channel
   * @param {AsyncIterable<Buffer[]>} socket
   */
  const read = async (channel, socket) => {
    for await (const frames of socket) {
      const start = frames.findIndex(frame => frame.equals(Buffer.from(DELIMITER)));
      const signature = frames[start + 1];
      const parts = frames.slice(start + 2, start + 6);
      // ipykernel 7 greets a new subscriber with a message that no client asked for; it is signed like all others.
      if (!signature || !timingSafeEqual(signature, sign(parts))) throw new Error('Wrong signature.');
      const [messageHeader, parent, , content] = parts.map(part => JSON.parse(part.toString()));
      requests.see(channel, messageHeader, parent, content);
    }
  };
  const readers = [read('shell', shell), read('iopub', iopub)];

  /**
   * @param {string} msgType
   * @param {object} content
   */
  const request = async (msgType, content) => {
    const asked = header(session, msgType);
    const answered = requests.expect(asked.msg_id);
    const start = performance.now();
    const parts = [asked, {}, {}, content].map(part => Buffer.from(JSON.stringify(part)));
    await shell.send([DELIMITER, sign(parts), ...parts]);
    return (await answered) - start;
  };

  // The subscription may reach the kernel after its first answers, so the first requests may never be complete.
  await until('Direct ZeroMQ', () => firstAnswer(shell, session, sign, requests), child);
  return {
    execute: code => request('execute_request', executeContent(code)),
    async close() {
      shell.close();
      iopub.close();
      await endChild(child);
      await Promise.all(readers);
    }
  };
}

/**
 * @param {Dealer} shell
 * @param {string} session
 * @param {(parts: Buffer[]) => Buffer} sign
 * @param {PendingRequest} requests
 * @returns {Promise<true | null>}
 */
async function firstAnswer(shell, session, sign, requests) {
  const asked = header(session, 'kernel_info_request');
  requests.forget();
  const answered = requests.expect(asked.msg_id);
  const parts = [asked, {}, {}, {}].map(part => Buffer.from(JSON.stringify(part)));
  await shell.send([DELIMITER, sign(parts), ...parts]);
  /** @type {Promise<null>} */
  const late = new Promise(resolve => setTimeout(() => resolve(null), 2000));
  return Promise.race([answered.then(() => /** @type {const} */ (true)), late]);
}
