// @ts-check
/**
 * Fan-out to 1, 4 and 16 clients of one kernel: deliveries per second, and the server's cost of each.
 *
 * `npm run bench -- clients [--peers NAME,…] [--samples N] [--quick] [--no-save]`. All clients run in this process, read alike and count
 * everything. Servers take turns, for each number of clients. Writes `bench/results/clients.json`.
 */
import { machineFacts } from '../measure/machine.mjs';
import { readOptions } from '../measure/options.mjs';
import { cpuMsBetween, sampleTree, total } from '../measure/process-tree.mjs';
import { printTable, saveResults } from '../measure/results.mjs';
import { Client } from '../servers/client.mjs';
import { displayData } from '../servers/kernel-code.mjs';
import { BRIDGE, withServers } from '../servers/open-servers.mjs';

const COUNTS = [1, 4, 16];
const SILENCE_MS = 20_000;
const options = readOptions(['jupyverse', 'jupyter-server-nodelay']);
const samples = options.samples ?? (options.quick ? 4000 : 20_000);
/** Peers deliver everything too (the kernel is lossless), only slower. */
const peerSamples = Math.round(samples / 4);

await withServers([BRIDGE, ...options.peers], async ({ servers, bridge }) => {
  const machine = machineFacts();
  /** @type {Record<string, object>} */
  const results = {};
  /** @type {import('../measure/results.mjs').Cell[][]} */
  const rows = [];
  /** @type {Map<string, string>} */
  const kernels = new Map();
  for (const server of servers.values()) kernels.set(server.name, await server.startKernel());
  for (const count of COUNTS) {
    for (const server of servers.values()) {
      const figures = await measure(
        server,
        kernels.get(server.name) ?? '',
        count,
        server === bridge ? samples : peerSamples
      );
      results[`${server.name}, ${count}`] = figures;
      rows.push([
        `${server.name}, ${count} client${count > 1 ? 's' : ''}`,
        figures.asked,
        figures.delivered,
        figures.disordered,
        figures.deliveriesPerSecond,
        figures.serverUsEach,
        figures.rssMb
      ]);
    }
  }
  const columns = [
    'asked',
    'delivered',
    'out of order',
    'deliveries a second',
    'server CPU µs each',
    'RSS MB after'
  ];
  printTable('display_data of 64 B', columns, rows);
  if (options.save) await saveResults('clients', machine, results, { samples, peerSamples });
});

/**
 * @param {import('../servers/server.mjs').Server} server
 * @param {string} kernelId
 * @param {number} count
 * @param {number} messages
 */
async function measure(server, kernelId, count, messages) {
  const clients = [];
  for (let n = 0; n < count; n++) clients.push(new Client(await server.connect(kernelId)));
  const [first] = clients;
  if (!first) throw new Error('At least one client is needed.');
  await first.ready();
  for (const client of clients) {
    await client.ready();
    client.startTally();
  }
  const before = sampleTree(server.pid);
  const { sentAt } = await first.execute(displayData(messages, 64), SILENCE_MS);
  await waitForAll(clients, messages);
  const cpuMs = cpuMsBetween(before, sampleTree(server.pid));
  const tallies = clients.map(client => client.tally);
  const delivered = tallies.reduce((sum, tally) => sum + tally.delivered, 0);
  const disordered = tallies.reduce((sum, tally) => sum + tally.disordered, 0);
  const ms = Math.max(...tallies.map(tally => tally.lastAt)) - sentAt;
  const rssMb = total(sampleTree(server.pid), 'rssMb');
  for (const client of clients) await client.close();
  return {
    clients: count,
    asked: messages * count,
    delivered,
    disordered,
    ms: Math.round(ms),
    deliveriesPerSecond: Math.round((delivered * 1000) / ms),
    serverUsEach: Math.round((cpuMs * 10_000) / delivered) / 10,
    rssMb
  };
}

/**
 * Waits until each client has everything or no message has come for a while.
 * @param {readonly Client[]} clients
 * @param {number} messages
 */
async function waitForAll(clients, messages) {
  const isDone = (/** @type {Client} */ client) =>
    client.tally.delivered >= messages || performance.now() - client.receivedAt > SILENCE_MS;
  while (!clients.every(isDone)) await new Promise(resolve => setTimeout(resolve, 10));
}
