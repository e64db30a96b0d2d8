// @ts-check
/** The bridge, journal on, as `tpulab serve` starts it. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { WebSocket } from 'ws';
import { endChild, startChild } from './child.mjs';
import { openWebSocket } from './websocket-connection.mjs';

const KERNELSPEC = 'tpulab-jax';
const STOP_DEADLINE_MS = 60_000;

/**
 * @typedef {import('./server.mjs').Server & {
 *   stateDir: string,
 *   startKernelAs: (kernelId: string, spec: string) => Promise<string>,
 *   connectFrom: (kernelId: string, seq: number) => Promise<import('./server.mjs').Connection>,
 *   control: (kernelId: string, command: object) => Promise<{ phase: string, time: number, reason: string | null }>,
 *   openEvents: () => Promise<WebSocket>,
 *   kernelspec: () => Promise<import('./server.mjs').Kernel>
 * }} Bridge
 */

/**
 * Starts a gateway. Its kernelspec is the command that all servers run.
 * @param {{ entry: string, envDir: string, folder: string, jupyterPath: string }} options
 * @returns {Promise<Bridge>}
 */
export async function openBridge({ entry, envDir, folder, jupyterPath }) {
  const stateDir = join(folder, 'state');
  await mkdir(stateDir, { mode: 0o700 });
  const token = randomBytes(16).toString('hex');
  const child = startChild(
    [process.execPath, entry, 'serve', '--port', '0', '--state-dir', stateDir, '--env-dir', envDir],
    {
      env: { ...process.env, TPULAB_TOKEN: token, JUPYTER_PATH: jupyterPath },
      cwd: folder,
      log: join(folder, 'bridge.log')
    }
  );
  const [line] = /** @type {string[]} */ (
    await Promise.race([
      once(createInterface(child.stdout), 'line', { signal: AbortSignal.timeout(60_000) }),
      once(child, 'exit').then(() => [''])
    ])
  );
  if (!line) throw new Error('`tpulab serve` ended before it was ready.');
  const url = /** @type {{ url: string }} */ (JSON.parse(line)).url.replace(/\/$/, '');
  const headers = { Authorization: `token ${token}`, 'Content-Type': 'application/json' };

  /** @param {object} wanted */
  const start = async wanted => {
    const response = await fetch(`${url}/api/kernels`, {
      method: 'POST',
      headers,
      body: JSON.stringify(wanted)
    });
    if (!response.ok) throw new Error(`The bridge started no kernel: ${await response.text()}`);
    return /** @type {{ id: string }} */ (await response.json()).id;
  };

  return {
    name: 'TPULab bridge',
    pid: child.pid ?? null,
    stateDir,
    startKernel: (spec = 'bench') => start({ name: spec === 'bench' ? KERNELSPEC : spec }),
    startKernelAs: (kernelId, spec) => start({ kernel_id: kernelId, name: spec }),
    connect: kernelId => openWebSocket({ url, token, kernelId }),
    connectFrom: (kernelId, seq) => openWebSocket({ url, token, kernelId, query: `&resume=${seq}` }),
    async control(kernelId, command) {
      const response = await fetch(`${url}/bridge/v1/kernels/${kernelId}/control`, {
        method: 'POST',
        headers,
        body: JSON.stringify(command)
      });
      const answer = await response.text();
      if (!response.ok) throw new Error(`The bridge answered a command with ${response.status}: ${answer}`);
      return JSON.parse(answer);
    },
    async openEvents() {
      const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/bridge/v1/events`, {
        headers: { Authorization: `token ${token}` }
      });
      await once(socket, 'open', { signal: AbortSignal.timeout(60_000) });
      return socket;
    },
    async kernelspec() {
      const response = await fetch(`${url}/api/kernelspecs`, { headers });
      const { kernelspecs } = /** @type {any} */ (await response.json());
      const spec = kernelspecs[KERNELSPEC]?.spec;
      if (!spec)
        throw new Error(`The bridge has no kernelspec "${KERNELSPEC}"; run \`tpulab env create jax\`.`);
      return { argv: spec.argv, env: spec.env ?? {} };
    },
    async endKernel(kernelId) {
      await fetch(`${url}/api/kernels/${kernelId}`, { method: 'DELETE', headers });
    },
    async close() {
      const stop = [entry, 'stop', '--kernels', '--state-dir', stateDir];
      await promisify(execFile)(process.execPath, stop, { timeout: STOP_DEADLINE_MS });
      await endChild(child);
    }
  };
}
