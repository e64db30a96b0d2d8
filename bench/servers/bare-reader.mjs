// @ts-check
/** A separate process that reads its own kernel with pyzmq and does nothing else: the reference for a server. */
import { randomBytes } from 'node:crypto';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { endChild } from './child.mjs';
import { startDirectKernel } from './direct-zmq.mjs';

const PROGRAM = fileURLToPath(new URL('pyzmq_reader.py', import.meta.url));
const READY_DEADLINE_MS = 120_000;

/**
 * @typedef {object} BareRun
 * @property {number} delivered
 * @property {number} disordered
 * @property {number} missing
 * @property {number} bytes
 * @property {boolean} idle
 * @property {number} ms
 * @property {number} cpuMs
 */

/**
 * @param {import('./server.mjs').Kernel} kernel
 * @param {string} folder
 */
export async function openBareReader(kernel, folder) {
  const id = `b${randomBytes(4).toString('hex')}`;
  const started = await startDirectKernel(kernel, folder, id);
  const reader = spawn(kernel.argv[0] ?? 'python3', [PROGRAM, join(folder, `${id}.json`)], {
    stdio: ['pipe', 'pipe', 'inherit']
  });
  const lines = createInterface(reader.stdout);
  const ended = once(reader, 'exit').then(() => Promise.reject(new Error('The bare reader has ended.')));
  ended.catch(() => undefined);
  const line = async (/** @type {AbortSignal | undefined} */ signal = undefined) => {
    const [text] = await Promise.race([once(lines, 'line', signal && { signal }), ended]);
    return JSON.parse(text);
  };
  await line(AbortSignal.timeout(READY_DEADLINE_MS));
  return {
    name: 'direct ZeroMQ (bare pyzmq)',
    /** @param {string} code @returns {Promise<BareRun>} */
    run(code) {
      const answer = line();
      reader.stdin.write(`${JSON.stringify({ code })}\n`);
      return answer;
    },
    async close() {
      await endChild(reader);
      await endChild(started.child);
    }
  };
}
