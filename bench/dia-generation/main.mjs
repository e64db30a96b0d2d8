// @ts-check
/**
 * A row of Dia's generation (nine tokens): our static cache beside a growing one (transformers' DynamicCache), each on
 * XLA:CPU and in plain PyTorch, at row 10, 100 and 1,000.
 *
 * Needs the environment `torch-xla`; about a minute. Options: `--no-save`. Exit code 1: with the static cache on XLA,
 * row 1,000 takes over 20 % longer than row 10, or there are more than three programs.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { machineFacts, versionsOf } from '../measure/machine.mjs';
import { printTable, saveResults } from '../measure/results.mjs';

const LIMIT = { growth: 1.2, programs: 3 };
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PYTHON = join(
  process.env['TPULAB_ENV_DIR'] ?? join(ROOT, '.tpulab', 'envs'),
  'torch-xla',
  'bin',
  'python'
);

const { values } = parseArgs({ options: { 'no-save': { type: 'boolean', default: false } } });
if (!existsSync(PYTHON)) {
  console.error('The environment "torch-xla" is missing; `npx tpulab env create torch-xla` makes it.');
  process.exit(2);
}
const machine = { ...machineFacts(), packages: versionsOf(PYTHON, ['torch', 'torch_xla', 'transformers']) };
const output = execFileSync(PYTHON, [join(ROOT, 'bench', 'dia-generation', 'measure.py')], {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'ignore'],
  timeout: 600_000
});
/** @type {Record<string, { row_ms: Record<string, number>, programs: number, compile_s: number }>} */
const measured = JSON.parse(output.trim().split('\n').at(-1) ?? '');
const results = Object.entries(measured).map(([kind, { row_ms: ms, programs, compile_s: seconds }]) => ({
  kind,
  row10Ms: ms['10'] ?? null,
  row100Ms: ms['100'] ?? null,
  row1000Ms: ms['1000'] ?? null,
  programs,
  compileSeconds: seconds
}));
printTable(
  'a row, ms',
  ['row 10', 'row 100', 'row 1,000', 'programs', 'compiling, s'],
  results.map(each => [
    each.kind,
    each.row10Ms,
    each.row100Ms,
    each.row1000Ms,
    each.programs,
    each.compileSeconds
  ])
);
if (!values['no-save']) await saveResults('dia-generation', machine, results, {});
const ours = results[0];
if (
  !ours ||
  ours.row10Ms === null ||
  ours.row1000Ms === null ||
  ours.row1000Ms > LIMIT.growth * ours.row10Ms ||
  ours.programs > LIMIT.programs
) {
  process.exitCode = 1;
}
