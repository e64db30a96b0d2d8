// @ts-check
/** Opens the servers that a benchmark compares, and ends them all in every case. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkout } from '../../scripts/setup/checkout.mjs';
import { openBareRelay } from './bare-relay.mjs';
import { openBridge } from './bridge.mjs';
import { openDirectZmq } from './direct-zmq.mjs';
import { openJupyterServer, VARIANTS } from './jupyter-server.mjs';
import { openJupyverse } from './jupyverse.mjs';
import { peersPython } from './peers-environment.mjs';

const ENV_DIR = process.env['TPULAB_ENV_DIR'] ?? checkout.envs;
const LIGHT_KERNEL = fileURLToPath(new URL('light_kernel.py', import.meta.url));

export const DIRECT = 'direct';
export const BRIDGE = 'bridge';
/** Not a server for comparison, but the floor for ours. */
export const RELAY = 'relay';
export const PEERS = Object.freeze(['jupyverse', ...Object.keys(VARIANTS)]);

/**
 * @typedef {object} OpenServers
 * @property {ReadonlyMap<string, import('./server.mjs').Server>} servers by the name used in options
 * @property {import('./bridge.mjs').Bridge} bridge
 * @property {import('./server.mjs').Kernel} kernel
 * @property {string} folder for the benchmark's own files
 */

/**
 * @template T
 * @param {readonly string[]} wanted names, in the order in which they are shown; the bridge is always included
 * @param {(open: OpenServers) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withServers(wanted, work) {
  const known = [DIRECT, RELAY, BRIDGE, ...PEERS];
  const unknown = wanted.find(name => !known.includes(name));
  if (unknown !== undefined) {
    throw new Error(`There is no server "${unknown}" to compare with; there are: ${known.join(', ')}.`);
  }
  const python = wanted.some(name => PEERS.includes(name)) ? await peersPython() : '';
  const folder = await mkdtemp(join(tmpdir(), 'tpulab-bench-'));
  /** @type {(() => Promise<void>)[]} last opened first */
  const closers = [() => rm(folder, { recursive: true, force: true, maxRetries: 5 })];
  // Ctrl-C reaches the servers too, but not the kernels: their owners must still end those.
  const interrupted = new Promise((_, reject) => {
    for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
      process.once(signal, () => reject(new Error(`The benchmark was ended by ${signal}.`)));
    }
  });
  interrupted.catch(() => undefined); // even when no caller waits for it
  try {
    const jupyterPath = join(folder, 'jupyter');
    /** @param {string} name */
    const own = async name => {
      const place = join(folder, name);
      await mkdir(place, { recursive: true });
      return place;
    };
    const bridge = await openBridge({
      entry: checkout.cli,
      envDir: ENV_DIR,
      folder: await own(BRIDGE),
      jupyterPath
    });
    closers.unshift(() => bridge.close());
    const kernel = await bridge.kernelspec();
    await writeSpec(jupyterPath, 'bench', kernel);
    await writeSpec(jupyterPath, 'light', {
      argv: [kernel.argv[0] ?? 'python3', LIGHT_KERNEL, '{connection_file}'],
      env: {}
    });
    /** @type {Map<string, import('./server.mjs').Server>} */
    const servers = new Map();
    for (const name of wanted) {
      const place = { folder: name === BRIDGE ? '' : await own(name), kernel, jupyterPath };
      const server = name === BRIDGE ? bridge : await open(name, python, place);
      if (server !== bridge) closers.unshift(() => server.close());
      servers.set(name, server);
    }
    const result = work({ servers, bridge, kernel, folder });
    return /** @type {T} */ (await Promise.race([result, interrupted]));
  } finally {
    for (const close of closers) {
      await close().catch(error => console.error('Something could not be ended:', error));
    }
  }
}

/**
 * @param {string} name
 * @param {string} python
 * @param {import('./server.mjs').Place} place
 */
async function open(name, python, place) {
  if (name === DIRECT) return openDirectZmq(place);
  if (name === RELAY) return openBareRelay(place);
  if (name === 'jupyverse') return openJupyverse(python, place);
  const variant = VARIANTS[name];
  if (!variant) throw new Error(`Unknown server "${name}".`);
  return openJupyterServer(variant, python, place);
}

/**
 * @param {string} jupyterPath
 * @param {string} name
 * @param {import('./server.mjs').Kernel} kernel
 */
async function writeSpec(jupyterPath, name, { argv, env }) {
  const folder = join(jupyterPath, 'kernels', name);
  await mkdir(folder, { recursive: true });
  const spec = { argv, env, display_name: name, language: 'python', interrupt_mode: 'signal', metadata: {} };
  await writeFile(join(folder, 'kernel.json'), JSON.stringify(spec));
}
