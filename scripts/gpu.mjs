// @ts-check
/**
 * `npm run test:gpu`: packs what a bare machine with an NVIDIA GPU, JAX and PyTorch lacks, at most 60 MiB, into .tpulab/gpu, and
 * runs bench/gpu/measure.py where this machine has such a GPU. Elsewhere it prints how to run it there, in one call of 8 minutes.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { checkout } from './setup/checkout.mjs';
import { lockOf, UV_ENV } from './setup/python-environment.mjs';
import { runOrExplain } from './setup/run-command.mjs';
import { setUp } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { uvTool } from './setup/tools.mjs';

const HELP = `npm run test:gpu [-- OPTIONS]

  --for VERSION    the Python of the machine with the GPU (3.12)
  --platform P     its platform, in uv's words (x86_64-manylinux_2_28)
  --python PATH    a Python with JAX and PyTorch to run it with here; needs an NVIDIA GPU
  --cpu            with --python: try the script on this machine's processor
  --help           this text`;

/** Packages that the machine has, or that nothing here needs at run time. Its own JAX fits its own CUDA. */
const NOT_PACKED = /^(jax|jaxlib|numpy|scipy|ml-dtypes|torch|nvidia-.*|triton|debugpy|jedi|tensorstore)$/;
const MAX_MIB = 60;
const SECONDS = 480;
/** Without an accelerator, on a possibly busy machine, the script is tested and nothing is measured. */
const SECONDS_ON_CPU = 3 * SECONDS;

const { values } = parseArgs({
  options: {
    for: { type: 'string', default: '3.12' },
    platform: { type: 'string', default: 'x86_64-manylinux_2_28' },
    python: { type: 'string' },
    cpu: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false }
  }
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const place = path.join(checkout.root, '.tpulab', 'gpu');
const controller = new AbortController();
process.once('SIGINT', () => controller.abort());
process.once('SIGTERM', () => controller.abort());
try {
  await setUp({ stages: [uvTool], signal: controller.signal });
  await pack();
  if (values.python) measure(values.python);
  else printResult();
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  process.stderr.write(`${[error.message, ...error.details].join('\n')}\n`);
  process.exitCode = 1;
}

/** The packages of the lock that are packed, into one archive; the sources are copied with the checkout. */
async function pack() {
  rmSync(place, { recursive: true, force: true });
  mkdirSync(place, { recursive: true });
  const wanted = path.join(place, 'requirements.txt');
  const entries = readFileSync(lockOf('test-gpu'), 'utf8').split(/\n(?=[A-Za-z0-9])/);
  const packed = entries.filter(entry => {
    const [name = ''] = entry.split('==');
    return /^[A-Za-z0-9]/.test(entry) && !NOT_PACKED.test(name);
  });
  writeFileSync(wanted, packed.join('\n'));
  const target = path.join(place, 'packages');
  const where = ['--target', target, '--python-version', values.for, '--python-platform', values.platform];
  await runOrExplain(
    'packing for a machine with a GPU',
    checkout.uv,
    ['pip', 'install', '--no-config', '--no-deps', '--only-binary', ':all:', ...where, '-r', wanted],
    { signal: controller.signal, env: UV_ENV, timeoutMs: 600_000 }
  );
  const archive = path.join(place, 'packages.tar.gz');
  await runOrExplain('packing', 'tar', ['-czf', archive, '--exclude=__pycache__', '-C', place, 'packages'], {
    signal: controller.signal,
    timeoutMs: 300_000
  });
  const mib = statSync(archive).size / 2 ** 20;
  console.log(`${path.relative(checkout.root, archive)}: ${mib.toFixed(1)} MiB`);
  if (mib > MAX_MIB) {
    throw new SetupProblem('too-large', `The pack may have ${MAX_MIB} MiB; leave packages out (NOT_PACKED).`);
  }
}

/** @param {string} python */
function measure(python) {
  if (!existsSync(python)) throw new SetupProblem('python_missing', `There is no ${python}.`);
  const script = path.join(checkout.root, 'bench', 'gpu', 'measure.py');
  const out = values.cpu
    ? path.join(place, 'cpu.json')
    : path.join(checkout.root, 'bench', 'results', 'gpu.json');
  const seconds = String(values.cpu ? SECONDS_ON_CPU : SECONDS);
  const args = [script, out, '--packages', path.join(place, 'packages'), '--seconds', seconds];
  const { status } = spawnSync(python, [...args, ...(values.cpu ? ['--cpu'] : [])], { stdio: 'inherit' });
  process.exitCode = status ?? 1;
}

function printResult() {
  console.log(`On the machine with the GPU, in a copy of this checkout with that archive, in one call of ${SECONDS / 60} minutes:

  mkdir -p /tmp/tpulab-gpu && tar -xzf .tpulab/gpu/packages.tar.gz -C /tmp/tpulab-gpu &&
  python3 bench/gpu/measure.py gpu.json --packages /tmp/tpulab-gpu/packages --seconds ${SECONDS}

Put gpu.json into bench/results; it names the card.`);
}
