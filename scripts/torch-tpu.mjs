// @ts-check
/**
 * `npm run test:torch-tpu`: makes the environment `torch-tpu` and tests the parts that need no TPU, then prints
 * the untested ones. On a machine with chips the contract suite of the seam runs on it too, in one process on one device.
 * `-- --torch 2.12.1` does so with another release of torch, in a separate environment.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { checkout } from './setup/checkout.mjs';
import { pythonIn, UV_ENV } from './setup/python-environment.mjs';
import { runOrExplain } from './setup/run-command.mjs';
import { setUp, TEST_STAGES } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { TORCH_TPU_STAGES, torchPythons } from './setup/torch-tests.mjs';

const { values } = parseArgs({ options: { torch: { type: 'string' } } });
const controller = new AbortController();
process.once('SIGINT', () => controller.abort());
process.once('SIGTERM', () => controller.abort());
try {
  await setUp({ stages: [...TEST_STAGES, ...TORCH_TPU_STAGES], signal: controller.signal });
  const python = values.torch === undefined ? torchPythons.torchTpu : await withTorch(values.torch);
  // pytest's own handler of torch's trace logger would make torch_tpu print every program.
  const options = ['-m', 'pytest', '-q', '-rs', '-p', 'no:logging'];
  const test = (/** @type {string} */ room, /** @type {string[]} */ ...folders) =>
    spawnSync(python, [...options, ...folders.map(folder => path.join('tests', folder))], {
      cwd: path.join(checkout.root, room),
      stdio: 'inherit'
    }).status;
  const statuses = [test('recipes', 'on_torch_tpu', 'runtime'), test('kernel-agent', 'pytorch')];
  process.exitCode = statuses.every(status => status === 0) ? 0 : 1;
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  process.stderr.write(`${[error.message, ...error.details].join('\n')}\n`);
  process.exitCode = 1;
}

/**
 * The environment of the tests with another release of torch; the other packages are from the lock.
 *
 * @param {string} torch
 */
async function withTorch(torch) {
  const place = path.join(checkout.testEnvs, `torch-tpu-${torch}`);
  const uv = (/** @type {string[]} */ ...args) =>
    runOrExplain(`making the environment with torch ${torch}`, checkout.uv, args, {
      signal: controller.signal,
      env: UV_ENV,
      timeoutMs: 30 * 60_000
    });
  await uv('venv', '--no-project', '--no-config', '--clear', '--python', torchPythons.torchTpu, place);
  const ofTorch = /^(torch|torchvision|triton|nvidia-.*|cuda-.*|setuptools)==/;
  const pins = readFileSync(path.join(checkout.definitions, 'torch-tpu', 'requirements.lock'), 'utf8')
    .split('\n')
    .filter(line => /^[a-z]/i.test(line) && !ofTorch.test(line))
    .map(line => line.replace(/\s*\\$/, ''));
  const constraints = path.join(place, 'constraints.txt');
  writeFileSync(constraints, pins.join('\n'));
  const packages = ['torchvision', 'torch_tpu', 'jax', 'transformers', 'librosa', 'praatio', 'peft', 'tyro'];
  const tests = ['ipykernel', 'ipywidgets', 'pytest', 'pytest-xdist', 'jsonschema'];
  const install = ['pip', 'install', '--no-config', '--python', pythonIn(place)];
  await uv(...install, '-c', constraints, `torch==${torch}`, ...packages, ...tests);
  const ours = ['kernel-agent', 'recipes'].map(name => path.join(checkout.root, name));
  await uv(...install, '--no-deps', ...ours.flatMap(folder => ['--editable', folder]));
  return pythonIn(place);
}
