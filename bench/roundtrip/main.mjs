// @ts-check
/**
 * Round trip of an execution at 1, 10 and 100 requests a second: direct ZeroMQ, a bare relay, the bridge (journal on) and its peers.
 *
 * `npm run bench -- roundtrip [--peers NAME,…] [--samples N] [--quick] [--no-save]`. All run the same kernel command on this
 * machine at the same time. Up to 10 a second the servers get requests in turn, each in its slot of the period; at 100 a second,
 * and back to back, each gets short blocks, in turn. The time counts from sending until both the reply and the idle
 * status have arrived. Writes `bench/results/roundtrip.json`.
 */
import { machineFacts, versionsOf } from '../measure/machine.mjs';
import { readOptions } from '../measure/options.mjs';
import { summarize } from '../measure/percentiles.mjs';
import { printTable, saveResults } from '../measure/results.mjs';
import { Client } from '../servers/client.mjs';
import { BRIDGE, DIRECT, PEERS, RELAY, withServers } from '../servers/open-servers.mjs';
import { peersPython } from '../servers/peers-environment.mjs';

const WARM_UP = 20;
const CODE = 'x = 1';
const BLOCK = 50;

const options = readOptions(PEERS);
const full = options.samples ?? (options.quick ? 60 : 300);
/** A second per sample is expensive, and shows little. */
const SAMPLES = {
  1: Math.min(full, options.quick ? 15 : 40),
  10: Math.min(full, 150),
  100: full,
  'back to back': full
};

/** @typedef {{ name: string, client: Client, times: number[], lost: number }} Target */

await withServers([DIRECT, RELAY, BRIDGE, ...options.peers], async ({ servers, kernel }) => {
  const machine = {
    ...machineFacts(),
    ...versionsOf(kernel.argv[0] ?? '', ['ipykernel']),
    ...(options.peers.length > 0 &&
      versionsOf(await peersPython(), ['jupyverse', 'jupyter_server', 'jupyter_kernel_gateway']))
  };
  /** @type {Target[]} */
  const targets = [];
  for (const server of servers.values()) {
    const client = new Client(await server.connect(await server.startKernel()));
    await client.ready();
    targets.push({ name: server.name, client, times: [], lost: 0 });
  }
  /** @type {Record<string, Record<string, object>>} */
  const results = {};
  await backToBack(targets, WARM_UP);
  for (const [rate, samples] of /** @type {[string, number][]} */ (Object.entries(SAMPLES))) {
    for (const target of targets) {
      target.times = [];
      target.lost = 0;
    }
    if (rate === 'back to back') await backToBack(targets, samples);
    else if (Number(rate) <= 10) await inSlots(targets, samples, Number(rate));
    else await inBlocks(targets, samples, Number(rate));
    results[rate] = Object.fromEntries(
      targets.map(target => [target.name, { ...summarize(target.times), lost: target.lost }])
    );
    print(rate, targets);
  }
  for (const { client } of targets) await client.close();
  if (options.save) await saveResults('roundtrip', machine, results, { samples: SAMPLES });
});

/** One after the other, each in its turn. @param {Target[]} targets @param {number} rounds */
async function backToBack(targets, rounds) {
  for (let round = 0; round < rounds; round++) {
    for (let place = 0; place < targets.length; place++) {
      await sample(/** @type {Target} */ (targets[(place + round) % targets.length]));
    }
  }
}

/** @param {Target[]} targets @param {number} samples @param {number} rate */
async function inSlots(targets, samples, rate) {
  const slotMs = 1000 / rate / targets.length;
  const start = performance.now();
  for (let n = 0; n < samples * targets.length; n++) {
    await untilTime(start + n * slotMs);
    const round = Math.floor(n / targets.length);
    await sample(/** @type {Target} */ (targets[(n + round) % targets.length]));
  }
}

/** @param {Target[]} targets @param {number} samples @param {number} rate */
async function inBlocks(targets, samples, rate) {
  for (let done = 0; done < samples; done += BLOCK) {
    for (const target of targets) {
      const start = performance.now();
      const running = [];
      for (let n = 0; n < Math.min(BLOCK, samples - done); n++) {
        await untilTime(start + (n * 1000) / rate);
        running.push(sample(target)); // whether the previous one has been answered or not
      }
      await Promise.all(running);
    }
  }
}

/** @param {Target} target */
async function sample(target) {
  const { sentAt, at, reply, idle } = await target.client.execute(CODE, 10_000);
  if (reply && idle) target.times.push(at - sentAt);
  else target.lost++;
}

/** @param {number} time */
async function untilTime(time) {
  const wait = time - performance.now();
  if (wait > 0) await new Promise(resolve => setTimeout(resolve, wait));
}

/** @param {string} rate @param {Target[]} targets */
function print(rate, targets) {
  const direct = summarize(/** @type {Target} */ (targets[0]).times).p50Ms;
  const rows = targets.map(({ name, times, lost }) => {
    const { minMs, p50Ms, p90Ms, p99Ms, samples } = summarize(times);
    return [name, samples, lost, minMs, p50Ms, p90Ms, p99Ms, p50Ms - direct];
  });
  const title = Number(rate) > 0 ? `execute, ms, ${rate} a second` : `execute, ms, ${rate}`;
  printTable(title, ['samples', 'lost', 'min', 'p50', 'p90', 'p99', 'p50 - direct'], rows);
}
