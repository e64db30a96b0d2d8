// @ts-check
/**
 * What the hub costs: a cell's round trip and a flood of output through hub and ssh, against the same bridge without the hub, and jupyter_server.
 *
 * `npm run bench -- hub [--peers jupyter-server] [--samples N] [--quick] [--no-save]`. An sshd is the far machine; delays of 0, 20 and
 * 100 ms are added on the way to it. All sides are measured in turn, in one run: the bridge at its own socket (without delay only),
 * the same bridge through plain `ssh -L`, at the near end of the hub's own ssh, through the hub, and jupyter_server as it is shipped through `ssh -L`.
 * The overhead of the hub is what it adds to its own ssh at p50. Writes `bench/results/hub.json`.
 */
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { checkout } from '../../scripts/setup/checkout.mjs';
import { machineFacts, versionsOf } from '../measure/machine.mjs';
import { readOptions } from '../measure/options.mjs';
import { summarize } from '../measure/percentiles.mjs';
import { printTable, saveResults } from '../measure/results.mjs';
import { Client } from '../servers/client.mjs';
import { freePort } from '../servers/free-port.mjs';
import { openJupyterServer, VARIANTS } from '../servers/jupyter-server.mjs';
import { displayData } from '../servers/kernel-code.mjs';
import { peersPython } from '../servers/peers-environment.mjs';
import { openWebSocket } from '../servers/websocket-connection.mjs';
import { openFarMachine } from './far-machine.mjs';
import { openHub } from './hub-gateway.mjs';

const DELAYS_MS = [0, 20, 100];
const WARM_UP = 20;
const PLAIN = 'same bridge, ssh -L';
/** The same connection as the hub's: plain `ssh -L` delays small packets (Nagle), a connection that has run a command does not. */
const HUB_SSH = "same bridge, the hub's ssh";
const HUB = 'hub';
const ENV_DIR = process.env['TPULAB_ENV_DIR'] ?? checkout.envs;

const options = readOptions(['jupyter-server']);
const full = options.samples ?? (options.quick ? 60 : 300);
/** @type {Readonly<Record<number, number>>} */
const SAMPLES = { 0: full, 20: Math.min(full, 100), 100: Math.min(full, 40) };
const FLOOD = options.quick ? 2_000 : 20_000;
const FLOOD_BYTES = 100;

/** @typedef {{ name: string, client: Client, times: number[], lost: number, delaysMs: readonly number[] }} Side */

const folder = await mkdtemp(path.join(tmpdir(), 'tph-'));
/** @type {(() => Promise<unknown>)[]} last opened first */
const closers = [() => rm(folder, { recursive: true, force: true, maxRetries: 5 })];
// Ctrl-C reaches the servers too, but not the kernels: their owners must still end those.
const interrupted = new Promise((_, reject) => {
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    process.once(signal, () => reject(new Error(`The benchmark was ended by ${signal}.`)));
  }
});
try {
  await Promise.race([measure(), interrupted]);
} finally {
  for (const close of closers)
    await close().catch(error => console.error('Something could not be ended:', error));
}

async function measure() {
  const farState = path.join(folder, 'far');
  const farBin = path.join(folder, 'far-bin');
  await mkdir(farState, { mode: 0o700 });
  await mkdir(farBin);
  const starter = `#!/bin/sh\nexec '${process.execPath}' '${checkout.cli}' "$@"\n`;
  await writeFile(path.join(farBin, 'tpulab'), starter);
  await chmod(path.join(farBin, 'tpulab'), 0o755);
  const machine = await openFarMachine(folder, {
    PATH: `${farBin}:/usr/local/bin:/usr/bin:/bin`,
    TPULAB_STATE_DIR: farState,
    TPULAB_ENV_DIR: ENV_DIR
  });
  closers.unshift(() => machine.close());
  const hub = await openHub({ folder, bin: machine.bin, farState, env: process.env });
  closers.unshift(() => hub.close());

  const forwards = ['-L', `${await freePort()}:${hub.far.socketPath}`];
  const jupyter = options.peers.length === 0 ? null : await openPeer();
  if (jupyter) forwards.push('-L', `${await freePort()}:${new URL(jupyter.where.url).host}`);
  closers.unshift(await machine.tunnel(forwards));
  /** @param {number} index */
  const tunnelled = index => `http://127.0.0.1:${forwards[index]?.split(':')[0]}`;

  /** @type {Side[]} */
  const sides = [];
  /** @param {string} name @param {Promise<import('../servers/server.mjs').Connection>} connection @param {readonly number[]} [delaysMs] */
  const add = async (name, connection, delaysMs = DELAYS_MS) => {
    const client = new Client(await connection);
    await client.ready();
    closers.unshift(() => client.close());
    sides.push({ name, client, times: [], lost: 0, delaysMs });
  };
  const { token } = hub.far;
  const direct = { url: 'http://localhost', token, socketPath: hub.far.socketPath };
  await add(
    'same bridge, its own socket',
    openWebSocket({ ...direct, kernelId: await startKernel(hub) }),
    [0]
  );
  await add(PLAIN, openWebSocket({ url: tunnelled(1), token, kernelId: await startKernel(hub) }));
  const shared = { url: 'http://localhost', token, socketPath: hub.tunnel };
  await add(HUB_SSH, openWebSocket({ ...shared, kernelId: await startKernel(hub) }));
  await add(HUB, openWebSocket({ ...hub.through, kernelId: await startKernel(hub) }));
  if (jupyter) {
    const kernelId = await jupyter.startKernel();
    await add(
      'jupyter_server, ssh -L',
      openWebSocket({ url: tunnelled(3), token: jupyter.where.token, kernelId })
    );
  }

  /** @type {Record<string, object>} */
  const results = {};
  for (const delayMs of DELAYS_MS) {
    machine.setDelay(delayMs);
    const here = sides.filter(side => side.delaysMs.includes(delayMs));
    await inTurn(here, WARM_UP);
    for (const side of here) Object.assign(side, { times: [], lost: 0 });
    await inTurn(here, SAMPLES[delayMs] ?? full);
    const floods = new Map();
    for (const side of here) floods.set(side.name, await flood(side));
    print(delayMs, here, floods);
    results[`${delayMs} ms`] = Object.fromEntries(
      here.map(({ name, times, lost }) => [name, { ...summarize(times), lost, flood: floods.get(name) }])
    );
  }
  const facts = {
    ...machineFacts(),
    ...(jupyter ? versionsOf(await peersPython(), ['jupyter_server']) : {})
  };
  if (options.save) await saveResults('hub', facts, results, { samples: SAMPLES, flood: FLOOD });
}

async function openPeer() {
  const variant = VARIANTS[options.peers[0] ?? ''];
  if (!variant) throw new Error(`There is no server "${options.peers[0]}" to compare with.`);
  const place = path.join(folder, 'jupyter');
  const spec = path.join(place, 'share', 'kernels', 'bench');
  await mkdir(spec, { recursive: true });
  const python = path.join(ENV_DIR, 'jax', 'bin', 'python');
  const argv = [python, '-m', 'tpulab.launcher', '-f', '{connection_file}'];
  await writeFile(
    path.join(spec, 'kernel.json'),
    JSON.stringify({ argv, display_name: 'bench', language: 'python' })
  );
  const jupyterPath = path.join(place, 'share');
  const server = await openJupyterServer(variant, await peersPython(), {
    folder: place,
    kernel: { argv, env: {} },
    jupyterPath
  });
  closers.unshift(() => server.close());
  return server;
}

/** @param {import('./hub-gateway.mjs').Hub} hub */
async function startKernel({ through: { url, token } }) {
  const response = await fetch(`${url}/api/kernels`, {
    method: 'POST',
    headers: { authorization: `token ${token}` },
    body: JSON.stringify({ name: 'tpulab-jax' })
  });
  if (!response.ok) throw new Error(`The far bridge started no kernel: ${await response.text()}`);
  return /** @type {{ id: string }} */ (await response.json()).id;
}

/** @param {readonly Side[]} sides @param {number} rounds */
async function inTurn(sides, rounds) {
  for (let round = 0; round < rounds; round++) {
    for (let place = 0; place < sides.length; place++) {
      const side = /** @type {Side} */ (sides[(place + round) % sides.length]);
      const { sentAt, at, reply, idle } = await side.client.execute('x = 1', 10_000);
      if (reply && idle) side.times.push(at - sentAt);
      else side.lost++;
    }
  }
}

/** Received outputs per second, and the number of missing ones. @param {Side} side */
async function flood({ client }) {
  client.startTally();
  const { sentAt } = await client.execute(displayData(FLOOD, FLOOD_BYTES), 120_000);
  const { delivered, disordered, lastAt } = client.tally;
  return {
    perSecond: Math.round((1000 * delivered) / (lastAt - sentAt)),
    lost: FLOOD - delivered,
    disordered
  };
}

/** @param {number} delayMs @param {readonly Side[]} sides @param {Map<string, any>} floods */
function print(delayMs, sides, floods) {
  const shared = summarize(/** @type {Side} */ (sides.find(({ name }) => name === HUB_SSH)).times).p50Ms;
  const rows = sides.map(({ name, times, lost }) => {
    const { p50Ms, p90Ms, p99Ms, samples } = summarize(times);
    const { perSecond, lost: missing } = floods.get(name);
    return [name, samples, lost, p50Ms, p90Ms, p99Ms, p50Ms - shared, perSecond, missing];
  });
  printTable(
    `execute, ms, ${delayMs} ms added`,
    ['samples', 'lost', 'p50', 'p90', 'p99', "p50 - hub's ssh", 'flood/s', 'missing'],
    rows
  );
}
