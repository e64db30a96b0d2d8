// @ts-check
/** A near gateway, and the far gateway that it starts and reaches over ssh. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { checkout } from '../../scripts/setup/checkout.mjs';
import { endChild, startChild } from '../servers/child.mjs';

const CONNECTED_MS = 60_000;

/**
 * @typedef {object} Hub
 * @property {{ url: string, token: string }} through the far gateway, through the near one
 * @property {{ socketPath: string, token: string }} far the far gateway itself
 * @property {string} tunnel the near end of the hub's own ssh, through which the hub forwards
 * @property {() => Promise<void>} close ends both, and the kernels
 */

/**
 * @param {{ folder: string, bin: string, farState: string, env: NodeJS.ProcessEnv }} options
 * @returns {Promise<Hub>}
 */
export async function openHub({ folder, bin, farState, env }) {
  const stateDir = path.join(folder, 'near');
  await mkdir(stateDir, { mode: 0o700 });
  const token = randomBytes(16).toString('hex');
  const child = startChild(
    [
      process.execPath,
      checkout.cli,
      'serve',
      '--port',
      '0',
      '--state-dir',
      stateDir,
      '--env-dir',
      `${folder}/none`
    ],
    {
      env: { ...env, PATH: `${bin}${path.delimiter}${env['PATH'] ?? ''}`, TPULAB_TOKEN: token },
      cwd: folder,
      log: path.join(folder, 'near.log')
    }
  );
  const lines = createInterface(child.stdout);
  const [line] = /** @type {string[]} */ (await once(lines, 'line', { signal: AbortSignal.timeout(60_000) }));
  const url = /** @type {{ url: string }} */ (JSON.parse(line ?? '')).url;
  /** @param {string} method @param {string} target @param {object} [body] */
  const request = async (method, target, body) => {
    const response = await fetch(new URL(target, url), {
      method,
      headers: { authorization: `token ${token}` },
      ...(body ? { body: JSON.stringify(body) } : {})
    });
    return /** @type {any} */ (await response.json());
  };
  const source = { kind: 'ssh', destination: 'far' };
  await request('POST', 'bridge/v1/machines', { name: 'far', source, install: false });
  const deadline = performance.now() + CONNECTED_MS;
  for (;;) {
    const { state, error } = await request('GET', 'bridge/v1/machines/far');
    if (state === 'connected') break;
    if (state === 'failed' || performance.now() > deadline) {
      throw new Error(`The hub is not connected: ${error?.message ?? state}`);
    }
    await new Promise(resolve => setTimeout(resolve, 100));
  }
  const run = path.join(stateDir, 'run', 'ssh');
  const socket = (await readdir(run)).find(name => name.endsWith('.s'));
  if (!socket) throw new Error('The hub has forwarded no socket.');
  return {
    tunnel: path.join(run, socket),
    through: { url: `${url}machines/far`, token },
    far: {
      socketPath: path.join(farState, 'run', 'gateway.sock'),
      token: (await readFile(path.join(farState, 'token'), 'utf8')).trim()
    },
    async close() {
      for (const state of [farState, stateDir]) {
        const stop = [checkout.cli, 'stop', '--kernels', '--state-dir', state];
        await promisify(execFile)(process.execPath, stop, { timeout: 60_000 });
      }
      await endChild(child);
    }
  };
}
