// @ts-check
/**
 * How soon the session page shows a notebook and `1 + 1`, beside JupyterLab with the extension: bytes, times, scrolling, a flood of lines.
 *
 * `npm run bench -- session [--loads N] [--no-save]`, or with `--loads 0` the scrolling and the flood alone. Gateway, JupyterLab and Chromium run on this machine; each load has an empty browser
 * cache, a notebook that was never run, and a running kernel. The slow profile is Chromium's own: 10 Mbit/s, 40 ms, a quarter
 * of the CPU speed. Times are the page's own, from navigation. Writes `bench/results/session.json`.
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

/** @typedef {{ editorMs: number, resultMs: number, bytes: number, requests: number }} Load */

const HERE = dirname(fileURLToPath(import.meta.url));
const CHECKOUT = dirname(dirname(HERE));

const { values } = parseArgs({
  options: { loads: { type: 'string', default: '5' }, 'no-save': { type: 'boolean', default: false } }
});
const loads = Number(values.loads);
if (!(loads >= 0 && loads <= 50)) {
  console.error(`--loads takes 0 to 50, not "${values.loads}".`);
  process.exit(2);
}

const folder = await mkdtemp(join(tmpdir(), 'tpulab-session-bench-'));
try {
  const file = join(folder, 'times.json');
  const runner = join(CHECKOUT, 'node_modules/@playwright/test/cli.js');
  const child = spawn(
    process.execPath,
    [runner, 'test', '-c', join(CHECKOUT, 'bench/measure/loads.config.mts'), 'session.loads'],
    {
      stdio: ['ignore', 2, 2],
      env: { ...process.env, TPULAB_SESSION_BENCH: JSON.stringify({ loads, file }) }
    }
  );
  const [exitCode] = await once(child, 'exit');
  if (exitCode !== 0) throw new Error(`The browser runs ended with ${exitCode}.`);
  /** @type {{ loads: Record<string, Load[]>, scroll: Record<string, object>, flood: Record<string, object> }} */
  const measured = JSON.parse(await readFile(file, 'utf8'));
  const results = {
    loads: Object.fromEntries(Object.entries(measured.loads).map(([name, all]) => [name, medians(all)])),
    scroll: measured.scroll,
    flood: measured.flood
  };
  printTable(
    'Median',
    ['editor, ms', '1 + 1, ms', 'kB', 'requests'],
    Object.entries(results.loads).map(([name, { editorMs, resultMs, kB, requests }]) => [
      name,
      editorMs,
      resultMs,
      kB,
      requests
    ])
  );
  for (const [title, figures] of [
    ['1,000 cells scrolled', results.scroll],
    ['20,000 lines printed', results.flood]
  ])
    console.log(`${title}: ${JSON.stringify(figures)}`);
  if (!values['no-save']) await saveResults('session', machineFacts(), results, { loads });
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** @param {readonly Load[]} all */
function medians(all) {
  const middle = (/** @type {keyof Load} */ of) =>
    all.map(load => load[of]).sort((a, b) => a - b)[Math.floor((all.length - 1) / 2)] ?? Number.NaN;
  return {
    editorMs: middle('editorMs'),
    resultMs: middle('resultMs'),
    kB: Math.round(middle('bytes') / 1000),
    requests: middle('requests')
  };
}
