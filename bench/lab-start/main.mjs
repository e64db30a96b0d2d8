// @ts-check
/**
 * How much later JupyterLab is ready with the extension than without it: the same Lab, loaded with and without in turn.
 *
 * `npm run bench -- lab-start [--loads N] [--no-save]`. Two Labs run side by side; each load is a fresh page with a warm browser cache,
 * timed by the page itself from navigation to the moment when Lab reports that it is restored. Writes `bench/results/lab-start.json`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { machineFacts } from '../measure/machine.mjs';
import { printTable, saveResults } from '../measure/results.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const CHECKOUT = dirname(dirname(HERE));
/** Design aim: at most this much later. */
const AIM_MS = 50;

const { values } = parseArgs({
  options: { loads: { type: 'string', default: '15' }, 'no-save': { type: 'boolean', default: false } }
});
const loads = Number(values.loads);
if (!(loads >= 3 && loads <= 200)) {
  console.error(`--loads takes 3 to 200, not "${values.loads}".`);
  process.exit(2);
}

const folder = await mkdtemp(join(tmpdir(), 'tpulab-lab-start-'));
try {
  const file = join(folder, 'times.json');
  const runner = join(CHECKOUT, 'node_modules/@playwright/test/cli.js');
  const child = spawn(process.execPath, [runner, 'test', '-c', join(HERE, 'playwright.config.mts')], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, TPULAB_LAB_START: JSON.stringify({ loads, file }) }
  });
  const [exitCode] = await once(child, 'exit');
  if (exitCode !== 0) throw new Error(`The browser runs ended with ${exitCode}.`);
  /** @type {{ without: number[], with: number[] }} */
  const times = JSON.parse(await readFile(file, 'utf8'));
  const results = { without: summary(times.without), with: summary(times.with), loads };
  printTable(
    'JupyterLab ready, ms',
    ['median', 'quartile', 'slowest'],
    [
      ['without the extension', ...Object.values(results.without)],
      ['with it', ...Object.values(results.with)]
    ]
  );
  const later = results.with.median - results.without.median;
  console.log(`Later by ${Math.round(later)} ms at the median. Aim: at most ${AIM_MS} ms.`);
  if (!values['no-save']) await saveResults('lab-start', machineFacts(), results, { loads });
  process.exitCode = later <= AIM_MS ? 0 : 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** @param {number[]} times */
function summary(times) {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (/** @type {number} */ share) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN;
  return { median: at(0.5), lowerQuartile: at(0.25), slowest: at(1) };
}
