// @ts-check
/**
 * `npm run check`: format, lint, types, import layers and forbidden content of tracked files. In parallel, with caches, so
 * that it takes seconds; a warning fails like an error. It changes nothing; with `-- --fix` the tools fix what they can.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { findViolations, readSources } from './check/layers.mjs';
import { pictureFindings } from './check/pictures.mjs';
import { proseFindings } from './check/prose.mjs';
import { findForbidden, findNotebookOutputs, findPrintedSources } from './check/tracked-files.mjs';
import { TSC } from './setup/build.mjs';
import { checkTools } from './setup/tools.mjs';
import { checkout } from './setup/checkout.mjs';
import { run } from './setup/run-command.mjs';
import { formatSeconds } from './setup/stage-printer.mjs';

/**
 * @typedef {{ name: string, run: () => Promise<Outcome> }} Check
 * @typedef {{ ok: boolean, output: string }} Outcome
 */

const HELP = `npm run check [-- NAME…] [-- --fix]

Runs the checks (all, or those named): types, format, lint, scripts, lint-jupyter, styles, layers, tracked,
pictures, prose, python-lint, python-format, python-types, shell. Every check is shown with its time, and a failing one with its output.

  --fix      let oxfmt, oxlint, ESLint, stylelint and ruff fix what they can
  --list     name the checks
  --report F write the outcome as JSON to the file F
  --help     this text`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    fix: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    report: { type: 'string' },
    help: { type: 'boolean', default: false }
  }
});
const fix = values.fix;
const caches = path.join(checkout.caches, 'check');
const bin = (/** @type {string} */ name) => path.join(checkout.root, 'node_modules', '.bin', name);
const tool = (/** @type {string} */ name) => path.join(path.dirname(checkout.uv), name);

/**
 * Our Python packages, each with the environment whose packages it imports. The tests of the server part are beside
 * it and need pytest, which only the environment of `npm test` has; without that environment they are left out.
 */
const SERVER_TESTS = path.join(checkout.testEnvs, 'server');
const PYTHON = [
  { folder: 'kernel-agent/src', environment: path.join(checkout.envs, 'jax'), leaveOut: [] },
  // The two torch files that exported networks include are plain scripts without types.
  {
    folder: 'recipes/src',
    environment: path.join(checkout.envs, 'jax'),
    leaveOut: ['--exclude=/tpulab_recipes/ddpm/export/torch_(unet|pipeline)\\.py$']
  },
  existsSync(SERVER_TESTS)
    ? { folder: 'extension/jupyterlab_tpulab', environment: SERVER_TESTS, leaveOut: [] }
    : {
        folder: 'extension/jupyterlab_tpulab',
        environment: checkout.lab,
        leaveOut: ['--exclude=(/test_[a-z_]+|/conftest)\\.py$', '--exclude=/testing/']
      }
];

/** @type {Promise<Outcome> | null} */
let building = null;
/** A check that reads the types of another package of ours reads the output of this build. */
const types = () => (building ??= command(process.execPath, [TSC, '--build', '--pretty', 'false']));

/** @type {Check[]} */
const CHECKS = [
  { name: 'types', run: types },
  {
    name: 'format',
    run: () =>
      command(bin('oxfmt'), [fix ? '--write' : '--list-different', '**/*.{ts,tsx,mjs,cjs,js,css,json}'])
  },
  {
    name: 'lint',
    run: async () => {
      await types();
      return command(bin('oxlint'), ['--deny-warnings', ...(fix ? ['--fix'] : [])]);
    }
  },
  {
    name: 'scripts',
    run: async () => {
      await types();
      return command(process.execPath, [TSC, '--project', 'scripts', '--pretty', 'false']);
    }
  },
  {
    name: 'lint-jupyter',
    run: () =>
      command(bin('eslint'), [
        '--cache',
        `--cache-location=${path.join(caches, 'eslint')}`,
        '--max-warnings=0',
        ...(fix ? ['--fix'] : []),
        ...['extension/src', 'extension/schema', 'ui-tests']
      ])
  },
  {
    name: 'styles',
    run: () =>
      command(bin('stylelint'), [
        '--cache',
        `--cache-location=${path.join(caches, 'stylelint')}`,
        '--max-warnings=0',
        ...(fix ? ['--fix'] : []),
        'style/*.css'
      ])
  },
  { name: 'layers', run: async () => findings(layerFindings()) },
  { name: 'tracked', run: async () => findings(trackedFindings()) },
  { name: 'pictures', run: async () => findings(pictureFindings(checkout.root)) },
  { name: 'prose', run: async () => findings(proseFindings(checkout.root, sourceFiles())) },
  {
    name: 'python-lint',
    run: () => command(tool('ruff'), ['check', '--quiet', ...(fix ? ['--fix'] : []), '.'])
  },
  {
    name: 'python-format',
    run: () => command(tool('ruff'), ['format', '--quiet', ...(fix ? [] : ['--check']), '.'])
  },
  { name: 'python-types', run: pythonTypes },
  { name: 'shell', run: shell }
];

/**
 * @param {string} program
 * @param {string[]} args
 * @returns {Promise<Outcome>}
 */
async function command(program, args) {
  const ended = await run(program, args, { cwd: checkout.root, env: { FORCE_COLOR: '0' } });
  return { ok: ended.exitCode === 0, output: [...ended.stdout, ...ended.stderr].join('\n') };
}

/** The scripts that run on hosts. */
async function shell() {
  if (!existsSync(tool('shellcheck')))
    await checkTools.make({
      signal: AbortSignal.timeout(600_000),
      detail: () => undefined,
      python: () => Promise.reject(new Error('shellcheck needs no Python'))
    });
  return command(
    tool('shellcheck'),
    sourceFiles().filter(file => file.endsWith('.sh') && file.includes('/host/'))
  );
}

async function pythonTypes() {
  const outcomes = await Promise.all(
    PYTHON.map(({ folder, environment, leaveOut }) =>
      command(tool('mypy'), [
        '--strict',
        '--no-error-summary',
        `--python-executable=${path.join(environment, 'bin', 'python')}`,
        `--cache-dir=${path.join(caches, 'mypy', folder.replaceAll('/', '-'))}`,
        '--config-file=mypy.ini',
        ...leaveOut,
        folder
      ])
    )
  );
  return {
    ok: outcomes.every(outcome => outcome.ok),
    output: outcomes.map(outcome => outcome.output).join('\n')
  };
}

/** @returns {string[]} tracked files, and files that will be tracked */
function sourceFiles() {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], {
    cwd: checkout.root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024
  });
  return listed.split('\0').filter(file => file !== '' && existsSync(path.join(checkout.root, file)));
}

function layerFindings() {
  return findViolations(readSources(checkout.root, sourceFiles())).map(
    ({ path: file, line, module, rule }) => `${file}:${line}  ${module}: ${rule}`
  );
}

function trackedFindings() {
  const recipes = sourceFiles().filter(file => /^recipes\/src\/.*\.py$/.test(file));
  const sources = recipes.map(textOf);
  return sourceFiles()
    .filter(file => !/\.(png|gz|npz|ico|woff2?|seg)$/.test(file))
    .flatMap(file => {
      if (!file.endsWith('.ipynb')) return findForbidden(file, textOf(file));
      const text = committedText(file);
      return [
        findForbidden(file, text),
        findNotebookOutputs(file, text),
        findPrintedSources(file, text, sources)
      ].flat();
    })
    .map(({ path: file, line, what }) => `${file}:${line}  ${what}`);
}

/** @param {string} file */
function textOf(file) {
  return readFileSync(path.join(checkout.root, file), 'utf8');
}

/**
 * A notebook as git would commit it: a user who has run the lesson and saved it has outputs in the file, which is allowed.
 *
 * @param {string} file
 */
function committedText(file) {
  try {
    return execFileSync('git', ['show', `:./${file}`], {
      cwd: checkout.root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 64 * 1024 * 1024
    });
  } catch {
    return textOf(file);
  }
}

/** @param {string[]} lines @returns {Outcome} */
function findings(lines) {
  return { ok: lines.length === 0, output: lines.join('\n') };
}

async function main() {
  if (values.help) return void process.stdout.write(`${HELP}\n`);
  if (values.list) return void process.stdout.write(`${CHECKS.map(check => check.name).join('\n')}\n`);
  const unknown = positionals.filter(name => !CHECKS.some(check => check.name === name));
  if (unknown.length > 0) {
    process.stderr.write(
      `There is no check named ${unknown.join(', ')}; npm run check -- --list names them.\n`
    );
    process.exitCode = 2;
    return;
  }
  await mkdir(caches, { recursive: true });
  const chosen = CHECKS.filter(check => positionals.length === 0 || positionals.includes(check.name));
  /** @type {{ name: string, ok: boolean, ms: number }[]} */
  const report = [];
  const waiting = [...chosen];
  const worker = async () => {
    for (let check = waiting.shift(); check; check = waiting.shift()) {
      const since = performance.now();
      const outcome = await check.run().catch(
        /** @returns {Outcome} */ error => ({
          ok: false,
          output: error instanceof Error ? error.message : String(error)
        })
      );
      const ms = performance.now() - since;
      report.push({ name: check.name, ok: outcome.ok, ms: Math.round(ms) });
      process.stdout.write(
        `  ${outcome.ok ? '✓' : '✗'} ${check.name.padEnd(16)}${formatSeconds(ms).padStart(8)}\n`
      );
      if (!outcome.ok) process.stdout.write(`${outcome.output.trimEnd().replace(/^/gm, '      ')}\n`);
    }
  };
  await Promise.all(Array.from({ length: Math.max(2, os.availableParallelism()) }, worker));
  const failed = report.filter(entry => !entry.ok).length;
  if (values.report !== undefined) await writeFile(values.report, `${JSON.stringify(report, null, 2)}\n`);
  process.stdout.write(`${report.length - failed} checks passed, ${failed} failed\n`);
  if (failed > 0) process.exitCode = 1;
}

await main();
