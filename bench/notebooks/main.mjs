// @ts-check
/**
 * The notebooks 00 to 08 through a bridge, from top to bottom, with their default settings.
 *
 * Seconds are the sum of the times of the cells, without the start of bridge and kernel; the compilers' part is printed beside it.
 * CPU seconds are the kernel's on all cores, its start included: on a busy machine only they show the work of a notebook. The aim:
 * 90 s on two CPU cores, 180 s for 05, 120 s for 06 to 08. Needs the environments `jax` and `torch-xla`, and the Python of the
 * client tests (`npm test -- clients` creates it). Exit code 1: a notebook took longer, or failed.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { machineFacts, versionsOf } from '../measure/machine.mjs';
import { printTable, RESULTS, saveResults } from '../measure/results.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PYTHON = join(ROOT, '.tpulab', 'test', 'clients', 'bin', 'python');
const ENVS = process.env['TPULAB_ENV_DIR'] ?? join(ROOT, '.tpulab', 'envs');
const NOTEBOOKS = [
  { file: '00-getting-started.ipynb', limitS: 90 },
  { file: '00-getting-started-pytorch.ipynb', limitS: 90 },
  { file: '01-single-core.ipynb', limitS: 90 },
  { file: '02-multi-core.ipynb', limitS: 90 },
  { file: '02-multi-core-jax.ipynb', limitS: 90 },
  { file: '03-profiling.ipynb', limitS: 90 },
  { file: '03-profiling-jax.ipynb', limitS: 90 },
  { file: '04-bert-fine-tune.ipynb', limitS: 300 },
  { file: '05-ddpm.ipynb', limitS: 180 },
  { file: '06-dia.ipynb', limitS: 120 },
  { file: '07-gpt-sovits.ipynb', limitS: 120 },
  { file: '08-english-tts.ipynb', limitS: 120 }
];
const JAX_ONLY = new Set([
  '00-getting-started.ipynb',
  '02-multi-core-jax.ipynb',
  '03-profiling-jax.ipynb',
  '05-ddpm.ipynb'
]);

/** @typedef {{ seconds: number, cpuS: number, programs: number, compileS: number, slowestCells: Record<string, number> }} Took */

const HELP = `npm run bench -- notebooks [options]

  --only 01,05   those whose file names begin so; of the others the last figures are kept
  --no-save      do not write results/notebooks.json
  --help         this text`;

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    'no-save': { type: 'boolean', default: false },
    help: { type: 'boolean', default: false }
  }
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const wanted = values.only.split(',');
const chosen = NOTEBOOKS.filter(each => wanted.some(name => each.file.startsWith(name)));
const environments = chosen.every(each => JAX_ONLY.has(each.file)) ? ['jax'] : ['jax', 'torch-xla'];
const missing = [PYTHON, ...environments.map(name => join(ENVS, name, 'bin', 'python'))].filter(
  file => !existsSync(file)
);
if (missing.length > 0) {
  console.error(
    'An environment is missing; `npx tpulab env create jax`, the same with torch-xla, and `npm test -- clients` make them.'
  );
  process.exit(2);
}
const machine = {
  ...machineFacts(),
  packages: {
    ...versionsOf(join(ENVS, 'jax', 'bin', 'python'), ['jax', 'flax']),
    ...(environments.includes('torch-xla')
      ? versionsOf(join(ENVS, 'torch-xla', 'bin', 'python'), ['torch', 'torch_xla', 'transformers'])
      : {})
  }
};

/** @type {(Took & { notebook: string, limitS: number, loadBefore: number, on: { measuredAt: string, cpu: string, commit: string } })[]} */
const results = [];
for (const { file, limitS } of chosen) {
  console.error(`running ${file} …`);
  const loadBefore = loadavg()[0] ?? 0;
  const took = await run(file);
  if (took === null) {
    console.error(`  ${file} failed`);
    process.exitCode = 1;
    continue;
  }
  // Retained rows are from other days and machines.
  const { measuredAt, cpu, commit } = machine;
  results.push({ notebook: file, ...took, limitS, loadBefore, on: { measuredAt, cpu, commit } });
  if (took.seconds > limitS) process.exitCode = 1;
}

printTable(
  'notebook',
  ['seconds', 'CPU seconds', 'compiling', 'programs', 'at most', 'load before'],
  results.map(each => [
    each.notebook,
    each.seconds,
    each.cpuS,
    each.compileS,
    each.programs,
    each.limitS,
    each.loadBefore
  ])
);
if (!values['no-save']) {
  /** @type {{ results: typeof results }} */
  const stored = JSON.parse(
    await readFile(join(RESULTS, 'notebooks.json'), 'utf8').catch(() => '{"results":[]}')
  );
  const rows = NOTEBOOKS.map(({ file }) =>
    [...results, ...stored.results].find(({ notebook }) => notebook === file)
  );
  await saveResults('notebooks', machine, rows.filter(Boolean), { only: values.only });
}

/** @param {string} file @returns {Promise<Took | null>} null when it failed; its output is on the terminal */
function run(file) {
  const child = spawn(PYTHON, [join(ROOT, 'bench', 'notebooks', 'run_one.py'), file], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, PYTHONPATH: ROOT }
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', text => (output += String(text)));
  return new Promise(resolve => {
    child.on('error', () => resolve(null));
    child.on('close', code =>
      resolve(code === 0 ? JSON.parse(output.trim().split('\n').at(-1) ?? '') : null)
    );
  });
}
