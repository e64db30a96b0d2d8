// @ts-check
/**
 * All benchmarks of the kernel bridge one after the other, and a summary of them in `bench/results/summary.md`.
 *
 * `npm run bench -- all [--quick] [--no-save]`. Takes up to 15 minutes on a quiet machine with two cores, up to 4 with `--quick`.
 * A benchmark that fails is reported and does not stop the others.
 */
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { RESULTS } from './measure/results.mjs';
import { summaryOf } from './measure/summary.mjs';

const NAMES = ['roundtrip', 'throughput', 'buffers', 'clients', 'kernels', 'catch-up'];
/** Longer than any benchmark takes on a busy machine. */
const DEADLINE_MS = 15 * 60_000;

const { values } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, 'no-save': { type: 'boolean', default: false } }
});
const flags = [...(values.quick ? ['--quick'] : []), ...(values['no-save'] ? ['--no-save'] : [])];
/** @type {import('node:child_process').ChildProcess | null} */
let running = null;
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.once(signal, () => {
    process.exitCode = 1;
    running?.kill('SIGTERM');
    NAMES.length = 0;
  });
}
const start = performance.now();
/** @type {string[]} */
const failed = [];
for (const name of [...NAMES]) {
  if (!NAMES.includes(name)) break;
  console.log(`== ${name}\n`);
  if (!(await run(name))) failed.push(name);
}
console.log(`All benchmarks took ${Math.round((performance.now() - start) / 1000)} s.`);
if (failed.length > 0) {
  console.error(`Failed: ${failed.join(', ')}. The summary shows what they gave the last time.`);
  process.exitCode = 1;
}
if (!values['no-save']) {
  await writeFile(join(RESULTS, 'summary.md'), summaryOf(RESULTS));
  console.log('Written to bench/results/summary.md.');
}

/** @param {string} name @returns {Promise<boolean>} */
function run(name) {
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL(`${name}/main.mjs`, import.meta.url)), ...flags],
    {
      stdio: 'inherit'
    }
  );
  running = child;
  const timer = setTimeout(() => child.kill('SIGTERM'), DEADLINE_MS);
  return new Promise(resolve => {
    child.on('error', () => resolve(false));
    child.on('exit', code => {
      clearTimeout(timer);
      running = null;
      resolve(code === 0);
    });
  });
}
