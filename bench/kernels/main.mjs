// @ts-check
/**
 * What kernels cost a server: memory and CPU time with 1, 16 and 64 idle ones, and the time from the request for a kernel to
 * its first idle.
 *
 * `npm run bench -- kernels [--peers NAME,…] [--samples N] [--quick] [--no-save]`. The idle kernels are light ones that only answer (their
 * memory is not counted); timed kernels are real ones, started in turn. Writes `bench/results/kernels.json`.
 */
import { machineFacts } from '../measure/machine.mjs';
import { readOptions } from '../measure/options.mjs';
import { summarize } from '../measure/percentiles.mjs';
import { cpuMsBetween, sampleTree, total } from '../measure/process-tree.mjs';
import { printTable, saveResults } from '../measure/results.mjs';
import { Client } from '../servers/client.mjs';
import { BRIDGE, withServers } from '../servers/open-servers.mjs';

const options = readOptions(['jupyverse', 'jupyter-server']);
const STARTS = options.samples ?? (options.quick ? 4 : 20);
const IDLE_COUNTS = options.quick ? [1, 8] : [1, 16, 64];
const REST_MS = 2000;
/** V8 collects the garbage of a start for some seconds after it. */
const SETTLE_MS = options.quick ? 1000 : 15_000;
const WATCH_MS = options.quick ? 2000 : 5000;

await withServers([BRIDGE, ...options.peers], async ({ servers }) => {
  const machine = machineFacts();
  const list = [...servers.values()];
  const starts = await measureStarts(list);
  printTable(
    'POST to first idle, ms',
    ['samples', 'min', 'p50', 'p90', 'max'],
    Object.entries(starts).map(([name, run]) => [
      name,
      run.samples,
      run.minMs,
      run.p50Ms,
      run.p90Ms,
      run.maxMs
    ])
  );
  /** @type {Record<string, Record<string, object>>} */
  const idle = {};
  /** @type {import('../measure/results.mjs').Cell[][]} */
  const rows = [];
  for (const server of list) {
    /** @type {string[]} */
    const kernels = [];
    for (const count of IDLE_COUNTS) {
      const failure = await startMore(server, kernels, count);
      if (failure !== null) {
        // A peer that fails is a result, and does not prevent the measurement of the others.
        if (server.name === servers.get(BRIDGE)?.name) throw failure;
        console.error(`${server.name}: no more than ${kernels.length} kernels: ${failure.message}`);
        break;
      }
      const figures = await watch(server);
      (idle[server.name] ??= {})[count] = figures;
      rows.push([
        `${server.name}, ${count}`,
        figures.rssMb,
        figures.pssMb,
        figures.serverMb,
        figures.keepersMb,
        figures.cpuMsPerSecond
      ]);
    }
    await Promise.all(kernels.map(kernel => server.endKernel(kernel)));
  }
  printTable('idle kernels', ['RSS MB', 'PSS MB', 'of the server', 'of keepers', 'CPU ms a second'], rows);
  if (options.save)
    await saveResults('kernels', machine, { starts, idle }, { starts: STARTS, idle: IDLE_COUNTS });
});

/** @param {readonly import('../servers/server.mjs').Server[]} servers */
async function measureStarts(servers) {
  const times = new Map(servers.map(({ name }) => [name, /** @type {number[]} */ ([])]));
  for (let round = -1; round < STARTS; round++) {
    for (const server of servers) {
      const start = performance.now();
      const kernel = await startAndExecute(server, 'bench');
      // The first one warms the disk's cache for all.
      if (round >= 0) times.get(server.name)?.push(performance.now() - start);
      await server.endKernel(kernel);
      // The leftovers of a start (a kernel that ends, a process prepared for the next) must not slow down another server's start.
      await new Promise(resolve => setTimeout(resolve, REST_MS));
    }
  }
  return Object.fromEntries([...times].map(([name, list]) => [name, summarize(list)]));
}

/**
 * Starts a kernel and waits until it has answered a first request and is idle.
 * @param {import('../servers/server.mjs').Server} server
 * @param {string} spec
 */
async function startAndExecute(server, spec) {
  const kernel = await server.startKernel(spec);
  const client = new Client(await server.connect(kernel));
  await client.ready();
  await client.close();
  return kernel;
}

/**
 * @param {import('../servers/server.mjs').Server} server
 * @param {string[]} kernels the running ones; new ones are appended
 * @param {number} count
 * @returns {Promise<Error | null>}
 */
async function startMore(server, kernels, count) {
  try {
    while (kernels.length < count) kernels.push(await startAndExecute(server, 'light'));
    return null;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** @param {import('../servers/server.mjs').Server} server */
async function watch(server) {
  await new Promise(resolve => setTimeout(resolve, SETTLE_MS));
  const before = sampleTree(server.pid);
  await new Promise(resolve => setTimeout(resolve, WATCH_MS));
  const after = sampleTree(server.pid);
  return {
    rssMb: total(after, 'rssMb'),
    pssMb: total(after, 'pssMb'),
    serverMb: total(after, 'pssMb', 'server'),
    keepersMb: total(after, 'pssMb', 'keeper'),
    cpuMsPerSecond: Math.round((cpuMsBetween(before, after) * 10_000) / WATCH_MS) / 10
  };
}
