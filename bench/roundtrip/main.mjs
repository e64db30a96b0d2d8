// @ts-check
/**
 * Round trip of an execution: direct ZeroMQ, the bridge (journal on) and jupyter_server, side by side.
 *
 * `npm run bench -- roundtrip [--samples N] [--no-save]`. All three run the same kernel command on this machine at the same
 * time; each round sends one small execution to each, in turning order, so that a busy moment hits all alike. The time
 * counts from sending until both the reply and the idle status are there. Writes `bench/results/roundtrip.json`.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startBridge } from './bridge.mjs';
import { openDirectZmq } from './direct-zmq.mjs';
import { openJupyterServer } from './jupyter-server.mjs';
import { machineFacts, versionOf } from './machine.mjs';
import { summarize } from './percentiles.mjs';

const CHECKOUT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const RESULT = join(CHECKOUT, 'bench', 'results', 'roundtrip.json');
const LAB_PYTHON = join(CHECKOUT, '.tpulab', 'lab', 'bin', 'python');
const ENV_DIR = process.env['TPULAB_ENV_DIR'] ?? join(CHECKOUT, '.tpulab', 'envs');
const ENTRY = join(CHECKOUT, 'kernel-bridge', 'bin', 'tpulab.js');

const WARM_UP_ROUNDS = 30;
const CODE = 'x = 1';
const DIRECT = 'direct ZeroMQ (ipc)';
const BRIDGE = 'TPULab bridge';
const SERVER = 'jupyter_server (default)';

const { values } = parseArgs({
  options: { samples: { type: 'string', default: '500' }, 'no-save': { type: 'boolean', default: false } }
});
const samples = Number(values.samples);
if (!Number.isInteger(samples) || samples < 1) throw new Error('--samples wants a whole number above 0.');

const folder = await mkdtemp(join(tmpdir(), 'tpulab-bench-'));
/** @type {(() => Promise<void>)[]} last opened first */
const closers = [() => rm(folder, { recursive: true, force: true })];
try {
  const bridge = await startBridge({ entry: ENTRY, envDir: ENV_DIR, folder });
  closers.unshift(() => bridge.stop());
  const kernel = await bridge.kernel();

  /** @type {Map<string, import('./target.mjs').OpenTarget>} */
  const targets = new Map();
  const add = (/** @type {string} */ name, /** @type {import('./target.mjs').OpenTarget} */ target) => {
    targets.set(name, target);
    closers.unshift(() => target.close());
  };
  add(DIRECT, await openDirectZmq(kernel, folder));
  add(BRIDGE, await bridge.open());
  add(SERVER, await openJupyterServer(kernel, folder, LAB_PYTHON));

  const times = await measure(targets);
  const results = Object.fromEntries([...times].map(([name, list]) => [name, summarize(list)]));
  const facts = { ...machineFacts(LAB_PYTHON), ipykernel: versionOf(kernel.argv[0] ?? '', 'ipykernel') };
  print(results);
  if (!values['no-save']) {
    await writeFile(
      RESULT,
      `${JSON.stringify({ benchmark: 'roundtrip', machine: facts, results }, null, 2)}\n`
    );
    console.log('Written to bench/results/roundtrip.json.');
  }
} finally {
  for (const close of closers) await close();
}

/** @param {Map<string, import('./target.mjs').OpenTarget>} targets */
async function measure(targets) {
  const names = [...targets.keys()];
  /** @type {Map<string, number[]>} */
  const times = new Map(names.map(name => [name, []]));
  for (let round = -WARM_UP_ROUNDS; round < samples; round++) {
    for (let place = 0; place < names.length; place++) {
      const name = /** @type {string} */ (names[(place + round + WARM_UP_ROUNDS) % names.length]);
      const ms = await /** @type {import('./target.mjs').OpenTarget} */ (targets.get(name)).execute(CODE);
      if (round >= 0) times.get(name)?.push(ms);
    }
  }
  return times;
}

/** @param {Record<string, ReturnType<typeof summarize>>} results */
function print(results) {
  const direct = results[DIRECT]?.p50Ms ?? NaN;
  console.log(
    `${'execute, ms'.padEnd(26)}${['min', 'p50', 'p90', 'p99', 'p50 - direct'].map(column).join('')}`
  );
  for (const [name, { minMs, p50Ms, p90Ms, p99Ms }] of Object.entries(results)) {
    const figures = [minMs, p50Ms, p90Ms, p99Ms, p50Ms - direct];
    console.log(name.padEnd(26) + figures.map(figure => column(figure.toFixed(2))).join(''));
  }
}

/** @param {string} text */
function column(text) {
  return text.padStart(14);
}
