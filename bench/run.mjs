// @ts-check
/**
 * Runs one benchmark: `npm run bench -- NAME [options]`; `npm run bench -- --list` names them.
 *
 * A benchmark is `bench/NAME.mjs`, `bench/NAME/main.mjs`, or `bench/NAME.py` (run in the environment `jax`). The first
 * sentence of its opening comment states its subject. Arguments after NAME are passed to it unchanged.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const BENCH = dirname(fileURLToPath(import.meta.url));
const PYTHON = join(
  process.env['TPULAB_ENV_DIR'] ?? join(BENCH, '..', '.tpulab', 'envs'),
  'jax',
  'bin',
  'python'
);

/** @typedef {{ name: string, file: string, about: string }} Benchmark */

/** @returns {Benchmark[]} */
function listBenchmarks() {
  const files = readdirSync(BENCH, { withFileTypes: true })
    .map(entry => (entry.isDirectory() ? join(entry.name, 'main.mjs') : entry.name))
    .filter(file => /\.(mjs|py)$/.test(file) && !/^(run|.*\.spec)\.mjs$/.test(file))
    .filter(file => existsSync(join(BENCH, file)));
  return files
    .map(file => ({
      name: file.replace(/(\/main)?\.(mjs|py)$/, '').replaceAll('_', '-'),
      file: join(BENCH, file),
      about: firstSentence(readFileSync(join(BENCH, file), 'utf8'))
    }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

/** @param {string} source */
function firstSentence(source) {
  const comment = /\/\*\*([\s\S]*?)\*\/|"""([\s\S]*?)"""/.exec(source);
  const text = (comment?.[1] ?? comment?.[2] ?? '')
    .replace(/^\s*\*/gm, '')
    .replace(/\s+/g, ' ')
    .trim();
  return /^.*?\.(?= |$)/.exec(text)?.[0] ?? text;
}

/**
 * @param {Benchmark} benchmark
 * @param {string[]} options
 * @returns {Promise<number>} exit code
 */
function run(benchmark, options) {
  const program = benchmark.file.endsWith('.py') ? PYTHON : process.execPath;
  const child = spawn(program, [benchmark.file, ...options], { stdio: 'inherit' });
  // The terminal sends Ctrl-C to the child too; it cleans up, and this process waits for it.
  const ignore = () => undefined;
  process.on('SIGINT', ignore);
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      resolve(code ?? (signal === null ? 1 : 128));
    });
  });
}

const [wanted, ...options] = process.argv.slice(2);
const benchmarks = listBenchmarks();
if (wanted === undefined || wanted === '--list' || wanted === '--help') {
  const width = Math.max(...benchmarks.map(({ name }) => name.length));
  for (const { name, about } of benchmarks) console.log(`${name.padEnd(width)}  ${about}`);
} else {
  const benchmark = benchmarks.find(({ name }) => name === wanted);
  if (benchmark) {
    process.exitCode = await run(benchmark, options);
  } else {
    console.error(
      `There is no benchmark "${wanted}"; there are: ${benchmarks.map(({ name }) => name).join(', ')}.`
    );
    process.exitCode = 2;
  }
}
