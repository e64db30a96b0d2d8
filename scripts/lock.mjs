// @ts-check
/** `npm run lock`: makes the lock files of environments/NAME from requirements.in (and requirements-tpu.in), for all systems together. */
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { checkout, shown } from './setup/checkout.mjs';
import { runOrExplain } from './setup/run-command.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';

/** Later packages are ignored: two people who lock on different days get the same result. */
const EXCLUDE_NEWER = '2026-11-15';

const HELP = `npm run lock [-- NAME…] [-- --upgrade]

Generates the lock files of the Python environments (all, or those named) from their requirements.in.
Locked versions stay unchanged if the requirements allow it.

  --upgrade   use the newest versions that the requirements allow
  --help      this text`;

/** The lock files of a folder; the second one uses the versions of the first. */
const LOCKS = ['requirements', 'requirements-tpu'];

/** @param {string} name */
async function lock(name, /** @type {boolean} */ upgrade) {
  const folder = path.join(checkout.definitions, name);
  for (const one of LOCKS) {
    const [source, target] = [path.join(folder, `${one}.in`), path.join(folder, `${one}.lock`)];
    if (existsSync(source)) await compile(name, source, target, upgrade);
  }
}

/**
 * @param {string} name
 * @param {string} source
 * @param {string} target
 * @param {boolean} upgrade
 */
async function compile(name, source, target, upgrade) {
  const args = [
    'pip',
    'compile',
    shown(source),
    ...['--output-file', shown(target)],
    ...['--universal', '--python-version', '3.11', '--generate-hashes', '--no-emit-index-url'],
    ...['--exclude-newer', EXCLUDE_NEWER, '--custom-compile-command', 'npm run lock'],
    '--quiet',
    ...(upgrade ? ['--upgrade'] : [])
  ];
  await runOrExplain(`locking ${name}`, checkout.uv, args, { cwd: checkout.root, timeoutMs: 600_000 });
  process.stdout.write(`  ${shown(target)}\n`);
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { upgrade: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } }
  });
  if (values.help) {
    process.stdout.write(`${HELP}\n`);
    return;
  }
  const all = readdirSync(checkout.definitions)
    .filter(name => existsSync(path.join(checkout.definitions, name, 'requirements.in')))
    // An environment for tests uses the versions of the one that it extends.
    .sort(
      (one, other) =>
        Number(one.startsWith('test')) - Number(other.startsWith('test')) || (one < other ? -1 : 1)
    );
  for (const name of positionals) {
    if (!all.includes(name)) {
      throw new SetupProblem(
        'unknown',
        `There is no environments/${name}/requirements.in; known: ${all.join(', ')}.`
      );
    }
  }
  for (const name of positionals.length > 0 ? all.filter(one => positionals.includes(one)) : all) {
    await lock(name, values.upgrade);
  }
}

try {
  await main();
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  process.stderr.write(`${[error.message, ...error.details].join('\n')}\n`);
  process.exitCode = 1;
}
