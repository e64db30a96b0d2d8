// @ts-check
/**
 * The gateway's cost of sampling the chips: CPU time without a page, and with a page that shows 2 samples per second.
 *
 * `npm run bench -- sampler [--seconds N] [--no-save]`. Each gateway is a real one beside a stand-in for the runtime's metric server,
 * for 0, 8 and 256 devices. The project's own bound: below 1 % of a core for 8 devices. Writes `bench/results/sampler.json`.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { WebSocket } from 'ws';
import { machineFacts } from '../measure/machine.mjs';
import { cpuMsBetween, sampleTree } from '../measure/process-tree.mjs';
import { printTable, saveResults } from '../measure/results.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const ENTRY = join(HERE, '..', '..', 'kernel-bridge', 'bin', 'tpulab.js');
const LIMIT_PERCENT = 1;
/** A gateway or a page that has just started costs more than one that has run for a while. */
const WARM_UP_MS = 20_000;

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '60' }, 'no-save': { type: 'boolean', default: false } }
});
const seconds = Number(values.seconds);
if (!(seconds >= 2 && seconds <= 600)) {
  console.error(`--seconds takes 2 to 600, not "${values.seconds}".`);
  process.exit(2);
}

/** @typedef {{ devices: number, idlePercent: number, lookingPercent: number, samples: number }} Row */
/** @type {Row[]} */
const rows = [];
for (const devices of [0, 8, 256]) rows.push(await measure(devices));
printTable(
  'devices',
  ['nobody looks, % of a core', 'a page looks, % of a core', 'samples'],
  rows.map(({ devices, idlePercent, lookingPercent, samples }) => [
    String(devices),
    idlePercent,
    lookingPercent,
    samples
  ])
);
if (!values['no-save']) await saveResults('sampler', machineFacts(), rows, { seconds });
const eight = rows.find(({ devices }) => devices === 8);
console.log(`Aim: below ${LIMIT_PERCENT} % of a core for 8 devices at 2 samples a second.`);
process.exitCode = eight && eight.lookingPercent < LIMIT_PERCENT ? 0 : 1;

/** @param {number} devices @returns {Promise<Row>} */
async function measure(devices) {
  const folder = await mkdtemp(join(tmpdir(), 'tpulab-sampler-'));
  const runtime =
    devices > 0 ? spawn(process.execPath, [join(HERE, 'metric-server.mjs'), String(devices)]) : null;
  const port = runtime ? await firstLine(runtime) : null;
  const token = randomBytes(16).toString('hex');
  const gateway = spawn(
    process.execPath,
    [ENTRY, 'serve', '--port', '0', '--state-dir', join(folder, 'state')],
    {
      env: {
        ...process.env,
        TPULAB_TOKEN: token,
        TPU_SKIP_MDS_QUERY: '1',
        ...(port ? { TPU_RUNTIME_METRICS_PORTS: port } : {})
      },
      stdio: ['ignore', 'pipe', 'ignore']
    }
  );
  try {
    const { url } = /** @type {{ url: string }} */ (JSON.parse(await firstLine(gateway)));
    await wait(WARM_UP_MS);
    const idlePercent = await share(gateway.pid ?? 0);
    const socket = new WebSocket(`${url.replace('http', 'ws')}bridge/v1/events?token=${token}`);
    await once(socket, 'open');
    let samples = 0;
    socket.on('message', data => (samples += /"machineSeq"/.test(String(data)) ? 1 : 0));
    socket.send(JSON.stringify({ op: 'subscribe', topics: ['devices'] }));
    await wait(WARM_UP_MS);
    samples = 0;
    const lookingPercent = await share(gateway.pid ?? 0);
    const seen = samples;
    socket.close();
    return { devices, idlePercent, lookingPercent, samples: seen };
  } finally {
    gateway.kill('SIGTERM');
    await once(gateway, 'exit');
    runtime?.kill('SIGTERM');
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** @param {number} pid percent of a core over the time of measurement */
async function share(pid) {
  const before = sampleTree(pid);
  const from = performance.now();
  await wait(seconds * 1_000);
  return (100 * cpuMsBetween(before, sampleTree(pid))) / (performance.now() - from);
}

/** @param {import('node:child_process').ChildProcess} child */
async function firstLine(child) {
  if (!child.stdout) throw new Error('The process has no output.');
  const [line] = await once(createInterface(child.stdout), 'line', { signal: AbortSignal.timeout(60_000) });
  return String(line);
}
