// @ts-check
/**
 * `npm run test:aot`: makes an environment with the TPU compiler (684 MB) and compiles training steps ahead of time for
 * v4, v5e, v5p, v6e and 7x: the steps of `tpulab check`, of the diffusion recipe, and of PyTorch recipes, which the
 * environment with torch_tpu exports. No TPU is needed, and nothing runs on one. The recipes' figures go into the table in docs/recipe-notes.md.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from './setup/build.mjs';
import { checkout } from './setup/checkout.mjs';
import { fingerprint } from './setup/fingerprint.mjs';
import { npmPackages } from './setup/npm-packages.mjs';
import { lockOf, makePythonEnvironment, pythonIn } from './setup/python-environment.mjs';
import { setUp } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { uvTool } from './setup/tools.mjs';
import { TORCH_TPU_STAGES, torchPythons } from './setup/torch-tests.mjs';

const HELP = `npm run test:aot [-- OPTIONS] [-- PYTEST-OPTIONS]

Compiles training steps for v4, v5e, v5p, v6e and 7x without a TPU, in three parts:

  --only check   \`tpulab check\`: a planted collective, the largest batch of each chip, and layouts
  --only jax     the diffusion recipe; needs the TPU compiler (684 MB)
  --only torch   the PyTorch recipes; also needs the environment torch-tpu (7 GB)
  --help         this text

A run that was stopped goes on: a step of PyTorch that this compiler has compiled for a chip is not compiled again
(.tpulab/test/aot-results.jsonl; remove it to start over).

  npm run test:aot -- --only jax -- -k v5e`;

const { values, positionals } = parseArgs({
  options: { only: { type: 'string' }, help: { type: 'boolean', default: false } },
  allowPositionals: true
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const FOLDERS = { check: 'check_aot', jax: 'ddpm_aot', torch: 'torch_aot' };
if (values.only !== undefined && !Object.hasOwn(FOLDERS, values.only)) {
  console.error(`--only takes check, jax or torch, not ${values.only}.`);
  process.exit(2);
}
const withTorch = values.only === undefined || values.only === 'torch';
const folders = Object.entries(FOLDERS).filter(([half]) => (values.only ?? half) === half);

const place = path.join(checkout.testEnvs, 'aot');
const python = pythonIn(place);

/** @type {import('./setup/stage.mjs').Stage} */
const environment = {
  id: 'test-aot',
  title: 'Python with the TPU compiler',
  fingerprint: () => fingerprint({ files: [lockOf('test-aot')] }),
  isThere: async () => existsSync(python),
  make: context => makePythonEnvironment({ name: 'test-aot', place }, context)
};

/** One JSON object per line, for each step and chip; written by the tests, which reuse earlier results in it. */
const results = path.join(checkout.testEnvs, 'aot-results.jsonl');
const [BEGIN, END] = ['<!-- table: npm run test:aot -->', '<!-- end of the table -->'];

/**
 * Puts the compiler's last figures for each step's newest program into the table of docs/recipe-notes.md. Rows of steps
 * that did not run stay as they are.
 */
function writeTable() {
  const document = path.join(checkout.root, 'docs', 'recipe-notes.md');
  const found = readFileSync(results, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
    .filter(each => 'need' in each.found);
  if (found.length === 0) return;
  const chips = ['v4', 'v5e', 'v5p', 'v6e', '7x'];
  const [before, rest = ''] = readFileSync(document, 'utf8').split(BEGIN);
  const [table = '', after] = rest.split(END);
  const rows = new Map(
    table
      .split('\n')
      .filter(line => line.startsWith('| `'))
      .map(line => line.split('|').map(cell => cell.trim()))
      .map(([, step = '', ...cells]) => [step, cells.slice(0, chips.length)])
  );
  for (const step of new Set(found.map(each => each.step))) {
    const { program, compiler } = found.findLast(each => each.step === step);
    const cells = chips.map(chip => {
      const wanted = Object.entries({ step, program, compiler, chip });
      const result = found.findLast(each => wanted.every(([key, value]) => each[key] === value))?.found;
      return result?.need ? (result.need / 2 ** 30).toFixed(3) : (result?.note ?? '');
    });
    rows.set(`\`${step}\``, cells);
  }
  const head = [
    [`GiB by ${found.at(-1).compiler}`, ...chips],
    ['---', ...chips.map(() => '---:')]
  ];
  const lines = [...head, ...[...rows].map(([step, cells]) => [step, ...cells])];
  const shown = lines.map(row => `| ${row.join(' | ')} |`).join('\n');
  writeFileSync(document, `${before}${BEGIN}\n\n${shown}\n\n${END}${after}`);
}

const controller = new AbortController();
process.once('SIGINT', () => controller.abort());
process.once('SIGTERM', () => controller.abort());
try {
  // The bridge, which consists of npm packages, makes the environment with torch_tpu.
  const torch = withTorch ? [npmPackages, build, ...TORCH_TPU_STAGES] : [];
  await setUp({ stages: [uvTool, ...torch, environment], signal: controller.signal });
  const recipes = path.join(checkout.root, 'recipes');
  const { status } = spawnSync(
    python,
    [
      ...['-m', 'pytest', '-q', '-s', '-c', path.join(recipes, 'pyproject.toml')],
      ...folders.map(([, folder]) => path.join(recipes, 'tests', folder)),
      ...positionals
    ],
    {
      stdio: 'inherit',
      env: {
        ...process.env,
        PYTHONPATH: ['kernel-agent', 'recipes']
          .map(part => path.join(checkout.root, part, 'src'))
          .join(path.delimiter),
        TPULAB_TORCH_PYTHON: torchPythons.torchTpu,
        TPULAB_AOT_RESULTS: results
      }
    }
  );
  process.exitCode = status ?? 1;
  if (existsSync(results)) writeTable();
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  process.stderr.write(`${[error.message, ...error.details].join('\n')}\n`);
  process.exitCode = 1;
}
