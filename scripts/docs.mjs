// @ts-check
/**
 * `npm run docs`: builds the documentation as a site, with search, for reading offline. VitePress has a separate lock file
 * (`docs/site`), so that nothing else needs it; a link to a page that does not exist fails the build.
 */
import { existsSync } from 'node:fs';
import { copyFile, cp, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { commandLinePage } from './docs/command-line.mjs';
import { settingsTables } from './docs/settings.mjs';
import { stagePages } from './docs/stage.mjs';
import { checkout } from './setup/checkout.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { runOrExplain } from './setup/run-command.mjs';

const HELP = `npm run docs [-- --preview]

Builds the documentation into .tpulab/docs/dist. The server shows it at /docs/, and Help opens it in JupyterLab and in the session page.

  --preview  serve the result on a port of this computer until Ctrl-C
  --help     this text`;

const WORK = path.join(checkout.root, '.tpulab', 'docs');
const SITE = path.join(checkout.root, 'docs', 'site');

async function main() {
  const { values } = parseArgs({
    options: { preview: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } }
  });
  if (values.help) return void process.stdout.write(`${HELP}\n`);
  await installVitePress();
  const source = path.join(WORK, 'src');
  await stagePages(source, {
    made: {
      'command-line': await commandLinePage(),
      'python-api': await pythonPage(),
      ...(await settingsTables())
    }
  });
  const config = path.join(source, '.vitepress');
  await mkdir(path.join(config, 'theme'), { recursive: true });
  await copyFile(path.join(SITE, 'config.mjs'), path.join(config, 'config.mjs'));
  await copyFile(path.join(checkout.root, 'scripts/docs/contents.mjs'), path.join(config, 'contents.mjs'));
  await copyFile(path.join(SITE, 'theme.mjs'), path.join(config, 'theme', 'index.mjs'));
  await copyFile(path.join(SITE, 'style.css'), path.join(config, 'theme', 'style.css'));
  await vitepress('build', source);
  const done = path.join(WORK, 'dist');
  await rm(done, { recursive: true, force: true });
  await rename(path.join(config, 'dist'), done);
  process.stdout.write(`The documentation is in ${path.relative(checkout.root, done)}.\n`);
  if (values.preview) {
    await cp(done, path.join(config, 'dist'), { recursive: true });
    await vitepress('preview', source);
  }
}

/** From its own lock; again only when that has changed. */
async function installVitePress() {
  const stamp = path.join(WORK, 'installed.lock');
  const lock = await readFile(path.join(SITE, 'package-lock.json'), 'utf8');
  if (existsSync(stamp) && (await readFile(stamp, 'utf8')) === lock) return;
  await mkdir(WORK, { recursive: true });
  for (const name of ['package.json', 'package-lock.json'])
    await copyFile(path.join(SITE, name), path.join(WORK, name));
  await runOrExplain('installing VitePress', 'npm', ['ci', '--ignore-scripts', '--no-fund', '--no-audit'], {
    cwd: WORK,
    timeoutMs: 600_000
  });
  await writeFile(stamp, lock);
}

/** @param {string} task @param {string} source */
async function vitepress(task, source) {
  const program = path.join(WORK, 'node_modules', 'vitepress', 'bin', 'vitepress.js');
  await runOrExplain('building the documentation', process.execPath, [program, task, source], {
    cwd: WORK,
    timeoutMs: 600_000
  });
}

async function pythonPage() {
  const python = path.join(checkout.envs, 'jax', 'bin', 'python');
  const { stdout } = await runOrExplain(
    'reading the Python API',
    python,
    [path.join(checkout.root, 'scripts/docs/python_api.py')],
    { cwd: checkout.root, timeoutMs: 300_000 }
  );
  return `${stdout.join('\n')}\n`;
}

await main().catch(error => {
  if (!(error instanceof SetupProblem)) throw error;
  process.stderr.write(`${[error.message, ...error.details].join('\n')}\n`);
  process.exitCode = 1;
});
