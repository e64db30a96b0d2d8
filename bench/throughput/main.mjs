// @ts-check
/**
 * Throughput of one client: many small and larger outputs and flushed prints, counted, in order, with what the server's processes cost.
 *
 * `npm run bench -- throughput [--peers NAME,…] [--samples N] [--quick] [--no-save]`. Each server gets the same cells in turn, a part of
 * the messages each time. `--samples` counts messages of the bridge and of direct ZeroMQ; peers get a fifth, because
 * they are slower and only the rate is compared. Writes `bench/results/throughput.json`.
 */
import { machineFacts, versionsOf } from '../measure/machine.mjs';
import { readOptions } from '../measure/options.mjs';
import { cpuMsBetween, forgetPeaks, sampleTree, total } from '../measure/process-tree.mjs';
import { printTable, saveResults } from '../measure/results.mjs';
import { openBareReader } from '../servers/bare-reader.mjs';
import { Client } from '../servers/client.mjs';
import { displayData, flushedPrints } from '../servers/kernel-code.mjs';
import { BRIDGE, DIRECT, PEERS, withServers } from '../servers/open-servers.mjs';
import { peersPython } from '../servers/peers-environment.mjs';

const ROUNDS = 4;
/** A server that lost the idle status never sends it. */
const SILENCE_MS = 15_000;
const BARE = 'bare';

const options = readOptions(PEERS);
const full = options.samples ?? (options.quick ? 10_000 : 100_000);
const CASES = [
  {
    name: 'display_data, 64 B',
    code: (/** @type {number} */ count) => displayData(count, 64),
    count: full,
    share: 1
  },
  {
    name: 'display_data, 4 KB',
    code: (/** @type {number} */ count) => displayData(count, 4096),
    count: full,
    share: 1
  },
  // Four times as expensive for the kernel itself, so a quarter of them.
  { name: 'flushed prints', code: flushedPrints, count: full, share: 0.25 }
];
const PEER_SHARE = 0.2;

/**
 * @typedef {object} Sum
 * @property {number} asked
 * @property {number} delivered
 * @property {number} disordered
 * @property {number} idles of the rounds
 * @property {number} ms until the last output of each round, added up
 * @property {number} cpuMs
 * @property {number} readerCpuMs
 * @property {number} peakMb
 */

/** @typedef {{ name: string, run: (code: string, count: number) => Promise<Omit<Sum, 'idles'> & { idle: boolean }> }} Target */

await withServers([DIRECT, BRIDGE, ...options.peers], async ({ servers, kernel, folder }) => {
  const machine = {
    ...machineFacts(),
    ...versionsOf(kernel.argv[0] ?? '', ['ipykernel', 'pyzmq']),
    ...(options.peers.length > 0 &&
      versionsOf(await peersPython(), ['jupyverse', 'jupyter_server', 'jupyter_kernel_gateway']))
  };
  const bare = await openBareReader(kernel, folder);
  try {
    /** @type {Map<string, Target>} */
    const targets = new Map([
      [
        BARE,
        { name: bare.name, run: async (code, count) => ({ ...(await runBare(bare, code)), asked: count }) }
      ]
    ]);
    for (const [key, server] of servers) targets.set(key, await openTarget(server));
    /** @type {Record<string, Record<string, object>>} */
    const results = {};
    for (const { name, code, count, share } of CASES) {
      /** @type {Map<string, Sum>} */
      const sums = new Map();
      for (let round = 0; round < ROUNDS; round++) {
        for (const [key, target] of targets) {
          const isPeer = options.peers.includes(key);
          const part = Math.round(
            (count * (isPeer ? PEER_SHARE : 1) * (key === DIRECT ? share : 1)) / ROUNDS
          );
          add(sums, target.name, await target.run(code(part), part));
        }
      }
      results[name] = Object.fromEntries([...sums].map(([target, sum]) => [target, figures(sum)]));
      print(name, /** @type {Record<string, ReturnType<typeof figures>>} */ (results[name]), bare.name);
    }
    if (options.save)
      await saveResults('throughput', machine, results, {
        samples: full,
        rounds: ROUNDS,
        peerShare: PEER_SHARE
      });
  } finally {
    await bare.close();
  }
});

/**
 * @param {import('../servers/server.mjs').Server} server
 * @returns {Promise<Target>}
 */
async function openTarget(server) {
  const client = new Client(await server.connect(await server.startKernel()));
  await client.ready();
  return {
    name: server.name,
    async run(code, count) {
      client.startTally();
      const before = sampleTree(server.pid);
      forgetPeaks(before);
      const readerBefore = process.cpuUsage();
      const { sentAt, at, idle } = await client.execute(code, SILENCE_MS);
      const { delivered, disordered, lastAt } = client.tally;
      const after = sampleTree(server.pid);
      const reader = process.cpuUsage(readerBefore);
      return {
        asked: count,
        delivered,
        disordered,
        idle,
        ms: (idle ? lastAt || at : lastAt) - sentAt,
        cpuMs: cpuMsBetween(before, after),
        readerCpuMs: (reader.user + reader.system) / 1000,
        peakMb: total(after, 'peakMb')
      };
    }
  };
}

/** @param {Awaited<ReturnType<typeof openBareReader>>} bare @param {string} code */
async function runBare(bare, code) {
  const { delivered, disordered, idle, ms, cpuMs } = await bare.run(code);
  return { delivered, disordered, idle, ms, cpuMs: 0, readerCpuMs: cpuMs, peakMb: 0 };
}

/** @param {Map<string, Sum>} sums @param {string} name @param {Omit<Sum, 'idles'> & { idle: boolean }} run */
function add(sums, name, { idle, ...run }) {
  const sum = sums.get(name) ?? {
    asked: 0,
    delivered: 0,
    disordered: 0,
    idles: 0,
    ms: 0,
    cpuMs: 0,
    readerCpuMs: 0,
    peakMb: 0
  };
  sums.set(name, {
    asked: sum.asked + run.asked,
    delivered: sum.delivered + run.delivered,
    disordered: sum.disordered + run.disordered,
    idles: sum.idles + (idle ? 1 : 0),
    ms: sum.ms + run.ms,
    cpuMs: sum.cpuMs + run.cpuMs,
    readerCpuMs: sum.readerCpuMs + run.readerCpuMs,
    peakMb: Math.max(sum.peakMb, run.peakMb)
  });
}

/** @param {Sum} sum */
function figures(sum) {
  const each = (/** @type {number} */ ms) =>
    sum.delivered === 0 ? null : Math.round((ms * 10_000) / sum.delivered) / 10;
  return {
    ...sum,
    ms: Math.round(sum.ms),
    readerCpuMs: Math.round(sum.readerCpuMs),
    rounds: ROUNDS,
    perSecond: sum.ms > 0 ? Math.round((sum.delivered * 1000) / sum.ms) : null,
    serverUsEach: each(sum.cpuMs),
    readerUsEach: each(sum.readerCpuMs)
  };
}

/** @param {string} title @param {Record<string, ReturnType<typeof figures>>} results @param {string} bare */
function print(title, results, bare) {
  const limit = results[bare]?.perSecond ?? 0;
  const rows = Object.entries(results).map(
    ([
      name,
      { asked: requested, delivered, disordered, idles, perSecond, serverUsEach, readerUsEach, peakMb }
    ]) => [
      name,
      requested,
      delivered,
      disordered,
      `${idles}/${ROUNDS}`,
      perSecond,
      perSecond === null ? null : perSecond / limit,
      serverUsEach,
      readerUsEach,
      peakMb
    ]
  );
  const columns = [
    'asked',
    'delivered',
    'out of order',
    'idle seen',
    'a second',
    'of bare',
    'server CPU µs each',
    'reader CPU µs each',
    'peak MB'
  ];
  printTable(title, columns, rows);
}
