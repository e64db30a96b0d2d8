// @ts-check
/** The bridge, journal on, as `tpulab serve` starts it. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { openChannels } from './channels-socket.mjs';
import { endChild, startChild } from './child.mjs';

const KERNELSPEC = 'tpulab-jax';

/**
 * Starts a gateway. Its kernelspec is the command that all targets run.
 * @param {{ entry: string, envDir: string, folder: string }} options
 */
export async function startBridge({ entry, envDir, folder }) {
  const state = join(folder, 'state');
  await mkdir(state, { mode: 0o700 });
  const token = randomBytes(16).toString('hex');
  const child = startChild(
    [process.execPath, entry, 'serve', '--port', '0', '--state-dir', state, '--env-dir', envDir],
    { env: { ...process.env, TPULAB_TOKEN: token }, cwd: folder, log: join(folder, 'bridge.log') }
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

  return {
    /** @returns {Promise<import('./target.mjs').Kernel>} */
    async kernel() {
      const response = await fetch(`${url}/api/kernelspecs`, { headers });
      const { kernelspecs } = /** @type {any} */ (await response.json());
      const spec = kernelspecs[KERNELSPEC]?.spec;
      if (!spec)
        throw new Error(`The bridge has no kernelspec "${KERNELSPEC}"; run \`tpulab env create jax\`.`);
      return { argv: spec.argv, env: spec.env ?? {} };
    },
    /** @returns {Promise<import('./target.mjs').OpenTarget>} */
    async open() {
      const body = JSON.stringify({ name: KERNELSPEC });
      const response = await fetch(`${url}/api/kernels`, { method: 'POST', headers, body });
      if (!response.ok) throw new Error(`The bridge started no kernel: HTTP ${response.status}.`);
      const { id } = /** @type {{ id: string }} */ (await response.json());
      return openChannels({ url, token, kernelId: id });
    },
    async stop() {
      await promisify(execFile)(process.execPath, [entry, 'stop', '--kernels', '--state-dir', state]);
      await endChild(child);
    }
  };
}
