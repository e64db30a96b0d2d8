// @ts-check
/**
 * Cells with too much output, in the session page and in JupyterLab with TPULab, beside JupyterLab with a stock kernel: how long a
 * letter takes to appear in another cell meanwhile, how much memory the page has, and how soon an interrupt shows.
 *
 * `npm run bench -- flood [--seconds N] [--sides TEXT] [--cells TEXT] [--no-save]`. One Chromium, a page after the other on the same machine. Writes
 * `bench/results/flood.json`.
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

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    // Selects those whose name contains this text.
    sides: { type: 'string', default: '' },
    cells: { type: 'string', default: '' },
    'no-save': { type: 'boolean', default: false }
  }
});
const seconds = Number(values.seconds);
if (!(seconds >= 5 && seconds <= 600)) {
  console.error(`--seconds takes 5 to 600, not "${values.seconds}".`);
  process.exit(2);
}

// Before the run, which is load itself.
const machine = machineFacts();
const folder = await mkdtemp(join(tmpdir(), 'tpulab-flood-bench-'));
try {
  const file = join(folder, 'times.json');
  const runner = join(CHECKOUT, 'node_modules/@playwright/test/cli.js');
  const child = spawn(
    process.execPath,
    [runner, 'test', '-c', join(CHECKOUT, 'bench/measure/loads.config.mts'), 'flood.loads'],
    {
      stdio: ['ignore', 2, 2],
      env: {
        ...process.env,
        TPULAB_FLOOD_BENCH: JSON.stringify({ seconds, file, sides: values.sides, cells: values.cells })
      }
    }
  );
  const [exitCode] = await once(child, 'exit');
  if (exitCode !== 0) throw new Error(`The browser runs ended with ${exitCode}.`);
  /** @type {Record<string, Record<string, { letterP50Ms: number | null, letterP95Ms: number | null, pageMB: number, interruptMs: number | null, letters: number }>>} */
  const results = JSON.parse(await readFile(file, 'utf8'));
  for (const [title, sides] of Object.entries(results)) {
    printTable(
      title,
      ['letter p50, ms', 'letter p95, ms', 'letters', 'page, MB', 'interrupt shown, ms'],
      Object.entries(sides).map(([name, { letterP50Ms, letterP95Ms, letters, pageMB, interruptMs }]) => [
        name,
        letterP50Ms ?? 'frozen',
        letterP95Ms ?? 'frozen',
        letters,
        pageMB,
        interruptMs ?? '-'
      ])
    );
  }
  if (!values['no-save'] && values.sides + values.cells === '')
    await saveResults('flood', machine, results, { seconds });
} finally {
  await rm(folder, { recursive: true, force: true });
}
