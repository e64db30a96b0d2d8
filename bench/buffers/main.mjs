// @ts-check
/**
 * Large buffers both ways: 200 of 1 MB and 20 of 50 MB, as comm messages carry them, and the memory that the server needs for them.
 *
 * `npm run bench -- buffers [--peers NAME,…] [--quick] [--no-save]`. Servers take turns, for each size and direction. "Out" is
 * from the kernel to the client, "in" from the client to the kernel. Each size is also written to a plain file on the same disk:
 * the journal cannot be faster than that. Writes `bench/results/buffers.json`.
 */
import { randomUUID } from 'node:crypto';
import { writePlainly } from '../measure/disk.mjs';
import { machineFacts } from '../measure/machine.mjs';
import { readOptions } from '../measure/options.mjs';
import { cpuMsBetween, forgetPeaks, sampleTree, total } from '../measure/process-tree.mjs';
import { printTable, saveResults } from '../measure/results.mjs';
import { Client } from '../servers/client.mjs';
import { BUFFERS_IN, BUFFERS_SHOWN, buffersOut, COMM_TARGET } from '../servers/kernel-code.mjs';
import { BRIDGE, DIRECT, withServers } from '../servers/open-servers.mjs';

const MB = 1e6;
const SILENCE_MS = 30_000;
const options = readOptions(['jupyter-server-nodelay']);
const CASES = options.quick
  ? [
      { count: 40, bytes: MB },
      { count: 3, bytes: 50 * MB }
    ]
  : [
      { count: 200, bytes: MB },
      { count: 20, bytes: 50 * MB }
    ];

/**
 * @typedef {object} Figures
 * @property {number} asked
 * @property {number} arrived
 * @property {number} mbPerSecond
 * @property {number} serverCpuMs
 * @property {number} gatewayPeakMb the server itself
 * @property {number} keeperPeakMb 0 for servers that have none
 * @property {string} [failure]
 */

await withServers([DIRECT, BRIDGE, ...options.peers], async ({ servers, folder }) => {
  const machine = machineFacts();
  /** @type {Record<string, Record<string, Figures>>} */
  const results = {};
  /** @type {Record<string, Awaited<ReturnType<typeof writePlainly>>>} */
  const plain = {};
  /** @type {Map<string, { server: import('../servers/server.mjs').Server, kernelId: string }>} */
  const targets = new Map();
  for (const server of servers.values()) {
    targets.set(server.name, { server, kernelId: await server.startKernel() });
  }
  for (const { count, bytes } of CASES) {
    const disk = await writePlainly(folder, count, bytes);
    for (const [direction, measure] of /** @type {const} */ ([
      ['out', outward],
      ['in', inward]
    ])) {
      const title = `${count} x ${bytes / MB} MB ${direction}`;
      /** @type {Record<string, Figures>} */
      const figures = {};
      for (const [name, { server, kernelId }] of targets) {
        figures[name] = await withClient(server, kernelId, client => measure(server, client, count, bytes));
      }
      results[title] = figures;
      print(title, figures);
      plain[title] = disk;
      console.log(
        `The same bytes into a plain file: ${disk.mbPerSecond} MB/s, ${disk.durableMbPerSecond} MB/s until durable.\n`
      );
    }
  }
  if (options.save) await saveResults('buffers', { ...machine, plainFile: plain }, results, { cases: CASES });
});

/**
 * A separate client for each measurement: a server that rejects a large frame closes the socket.
 * @param {import('../servers/server.mjs').Server} server
 * @param {string} kernelId
 * @param {(client: Client) => Promise<Figures>} measure
 */
async function withClient(server, kernelId, measure) {
  const client = new Client(await server.connect(kernelId));
  try {
    await client.ready();
    return await measure(client);
  } catch (error) {
    const failure = error instanceof Error ? error.message : String(error);
    return {
      asked: 0,
      arrived: 0,
      mbPerSecond: 0,
      serverCpuMs: 0,
      gatewayPeakMb: 0,
      keeperPeakMb: 0,
      failure
    };
  } finally {
    await client.close();
  }
}

/** @param {import('../servers/server.mjs').Server} server @param {Client} client @param {number} count @param {number} bytes */
async function outward(server, client, count, bytes) {
  client.startTally();
  const before = sampleTree(server.pid);
  forgetPeaks(before);
  const { sentAt } = await client.execute(buffersOut(count, bytes), SILENCE_MS);
  const { delivered, lastAt, bytes: received } = client.tally;
  return figuresOf(server, before, {
    asked: count,
    arrived: delivered,
    bytes: received,
    ms: lastAt - sentAt
  });
}

/** @param {import('../servers/server.mjs').Server} server @param {Client} client @param {number} count @param {number} bytes */
async function inward(server, client, count, bytes) {
  await client.execute(BUFFERS_IN);
  const comm = randomUUID();
  await client.post('comm_open', { comm_id: comm, target_name: COMM_TARGET, data: {} }, []);
  const buffer = Buffer.alloc(bytes, 'b');
  client.startTally();
  const before = sampleTree(server.pid);
  forgetPeaks(before);
  const start = performance.now();
  for (let n = 0; n < count; n++) await client.post('comm_msg', { comm_id: comm, data: {} }, [buffer]);
  // Answered after all earlier messages.
  const { at, idle } = await client.execute(BUFFERS_SHOWN, SILENCE_MS);
  await client.post('comm_close', { comm_id: comm, data: {} }, []);
  const arrived = idle ? client.tally.missing : 0;
  return figuresOf(server, before, { asked: count, arrived, bytes: arrived * bytes, ms: at - start });
}

/**
 * @param {import('../servers/server.mjs').Server} server
 * @param {readonly import('../measure/process-tree.mjs').ProcessSample[]} before
 * @param {{ asked: number, arrived: number, bytes: number, ms: number }} run
 * @returns {Figures}
 */
function figuresOf(server, before, { asked: requested, arrived, bytes, ms }) {
  const after = sampleTree(server.pid);
  return {
    asked: requested,
    arrived,
    mbPerSecond: Math.round(bytes / MB / (ms / 1000)),
    serverCpuMs: cpuMsBetween(before, after),
    gatewayPeakMb: total(after, 'peakMb', 'server'),
    keeperPeakMb: Math.max(0, ...after.filter(({ role }) => role === 'keeper').map(({ peakMb }) => peakMb))
  };
}

/** @param {string} title @param {Record<string, Figures>} figures */
function print(title, figures) {
  const limit = Object.values(figures)[0]?.mbPerSecond ?? 0;
  const rows = Object.entries(figures).map(([name, run]) =>
    run.failure === undefined
      ? [
          name,
          run.asked,
          run.arrived,
          run.mbPerSecond,
          run.mbPerSecond / limit,
          run.serverCpuMs,
          run.gatewayPeakMb,
          run.keeperPeakMb
        ]
      : [name, run.failure]
  );
  printTable(
    title,
    ['asked', 'arrived', 'MB/s', 'of direct', 'server CPU ms', 'server peak MB', 'keeper peak MB'],
    rows
  );
}
