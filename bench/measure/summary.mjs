// @ts-check
/** The summary of all results: each aim beside its measurement. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { shown } from './results.mjs';

const BRIDGE = 'TPULab bridge';
const DIRECT = 'direct ZeroMQ (Node)';
const RELAY = 'bare relay (two processes)';
const BARE = 'direct ZeroMQ (bare pyzmq)';

/** @typedef {{ what: string, aim: string, measured: string, met: boolean | null }} Line */

/** @param {string} folder with the JSON files @returns {string} Markdown */
export function summaryOf(folder) {
  const read = (/** @type {string} */ name) => {
    const file = join(folder, `${name}.json`);
    return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : null;
  };
  const parts = Object.entries(READERS).map(([name, lines]) => {
    const result = read(name);
    if (!result) return { name, machine: null, lines: [] };
    return { name, machine: result.machine, lines: lines(result.results) };
  });
  const machine = parts.find(part => part.machine)?.machine ?? {};
  const rows = parts.flatMap(part =>
    part.lines.map(({ what, aim, measured, met }) => {
      const verdict = met === null ? '' : met ? 'yes' : '**no**';
      return `| ${what} | ${aim} | ${measured} | ${verdict} |`;
    })
  );
  const dates = parts
    .filter(part => part.machine)
    .map(part => {
      const { measuredAt, commit, changed, loadBefore } = part.machine;
      return `- ${part.name}: ${measuredAt}, commit ${commit}${changed ? ' with changes' : ''}, load before ${loadBefore}`;
    });
  return [
    '# Summary of the benchmarks',
    '',
    `Made by \`npm run bench -- all\`. ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ${machine.system}, Node ${machine.node}.`,
    '',
    '| what | aim | measured | met |',
    '| --- | --- | --- | --- |',
    ...rows,
    '',
    'When each was measured. A load above 0.3 means that the machine was doing something else as well.',
    '',
    ...dates,
    ''
  ].join('\n');
}

/** @type {Record<string, (results: any) => Line[]>} */
const READERS = {
  roundtrip: results =>
    Object.entries(results).map(([rate, byName]) => {
      const over = byName[BRIDGE].p50Ms - byName[DIRECT].p50Ms;
      const peers = Object.entries(byName).filter(([name]) => ![BRIDGE, DIRECT, RELAY].includes(name));
      const best = peers.sort(([, a], [, b]) => a.p50Ms - b.p50Ms)[0];
      const floor = byName[RELAY]
        ? `, bare relay + ${shown(byName[RELAY].p50Ms - byName[DIRECT].p50Ms)} ms`
        : '';
      const ahead = !best || byName[BRIDGE].p50Ms < best[1].p50Ms;
      return {
        what: `round trip, ${Number(rate) > 0 ? `${rate} a second` : rate}, p50`,
        aim: 'direct + 1 ms, ahead of every peer',
        measured: `direct ${shown(byName[DIRECT].p50Ms)} + ${shown(over)} ms${floor}${best ? `; best peer ${best[0]} ${shown(best[1].p50Ms)} ms` : ''}`,
        met: over <= 1 && ahead
      };
    }),
  throughput: results =>
    Object.entries(results).flatMap(([name, byName]) => {
      const { [BRIDGE]: bridge, [BARE]: bare, jupyverse } = byName;
      const whole =
        bridge.delivered === bridge.asked && bridge.disordered === 0 && bridge.idles === bridge.rounds;
      const lines = [
        {
          what: `${name}: all, in order, idle seen`,
          aim: 'all',
          measured: `${shown(bridge.delivered)} of ${shown(bridge.asked)}, idle ${bridge.idles}/${bridge.rounds}`,
          met: whole
        },
        {
          what: `${name}: rate`,
          aim: '0.85 of bare',
          measured: `${shown(bridge.perSecond)} of ${shown(bare.perSecond)} a second: ${shown(bridge.perSecond / bare.perSecond)}`,
          met: bridge.perSecond >= 0.85 * bare.perSecond
        }
      ];
      if (jupyverse) {
        lines.push({
          what: `${name}: server CPU each`,
          aim: "a fifth of jupyverse's",
          measured: `${shown(bridge.serverUsEach)} µs, jupyverse ${shown(jupyverse.serverUsEach)} µs`,
          met: bridge.serverUsEach * 5 <= jupyverse.serverUsEach
        });
      }
      return lines;
    }),
  buffers: results =>
    Object.entries(results).map(([name, byName]) => ({
      what: `buffers, ${name}`,
      aim: '0.85 of direct',
      measured: `${shown(byName[BRIDGE].mbPerSecond)} of ${shown(byName[DIRECT].mbPerSecond)} MB/s; peaks: gateway ${shown(byName[BRIDGE].gatewayPeakMb)} MB, keeper ${shown(byName[BRIDGE].keeperPeakMb)} MB`,
      met: byName[BRIDGE].mbPerSecond >= 0.85 * byName[DIRECT].mbPerSecond
    })),
  clients: results =>
    Object.entries(results)
      .filter(([name]) => name.startsWith(BRIDGE))
      .map(([name, { clients, deliveriesPerSecond, serverUsEach }]) => ({
        what: name.replace(BRIDGE, 'clients'),
        aim: clients === 16 ? '15,000 deliveries a second' : '',
        measured: `${shown(deliveriesPerSecond)} a second, ${shown(serverUsEach)} µs each`,
        met: clients === 16 ? deliveriesPerSecond >= 15_000 : null
      })),
  kernels: ({ starts, idle }) => {
    const ours = starts[BRIDGE].p50Ms;
    const theirs = starts.jupyter_server?.p50Ms;
    const lines = [
      {
        what: 'start of a kernel, p50',
        aim: 'not slower than jupyter_server',
        measured: `${shown(ours)} ms, jupyter_server ${shown(theirs)} ms`,
        met: theirs === undefined ? null : ours <= theirs
      }
    ];
    for (const [count, { rssMb, pssMb, serverMb, keepersMb, cpuMsPerSecond }] of Object.entries(
      idle[BRIDGE]
    )) {
      lines.push({
        what: `idle kernels, ${count}`,
        // The keepers include one that waits for the next kernel.
        aim: count === '1' ? 'gateway 90 MB, a keeper 30 MB' : '',
        measured: `${shown(pssMb)} MB (each process's resident memory: ${shown(rssMb)}), of keepers ${shown(keepersMb)}; ${shown(cpuMsPerSecond)} ms CPU a second`,
        // Older results lack this value.
        met: count === '1' && pssMb !== undefined ? serverMb <= 90 && keepersMb <= 2 * 30 : null
      });
    }
    return lines;
  },
  'catch-up': ({ rounds }) => {
    const [first] = rounds;
    return [
      {
        what: `catching up ${shown(first.delivered)} messages: first output`,
        aim: '100 ms',
        measured: `${shown(first.firstMs)} ms`,
        met: first.firstMs <= 100
      },
      {
        what: 'catching up: rate',
        aim: '50,000 a second',
        measured: `${shown(first.perSecond)} a second`,
        met: first.perSecond >= 50_000
      },
      {
        what: 'catching up: memory of the gateway',
        aim: 'flat',
        measured: `${shown(first.beforeMb)} MB before; peaks of one client after the other ${rounds.map((/** @type {any} */ round) => shown(round.peakMb)).join(', ')} MB`,
        met: null
      }
    ];
  }
};
