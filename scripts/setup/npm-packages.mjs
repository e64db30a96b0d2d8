// @ts-check
/** Stage: the npm packages of package-lock.json. */
import { existsSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { explainFailure, reasonOf } from './explain-failure.mjs';
import { fingerprint } from './fingerprint.mjs';
import { run, runOrExplain } from './run-command.mjs';

const LOCK = path.join(checkout.root, 'package-lock.json');
/** npm writes this last. It is removed before an installation begins, so an interrupted installation has none. */
const INSTALLED = path.join(checkout.root, 'node_modules', '.package-lock.json');

/** @type {import('./stage.mjs').Stage} */
export const npmPackages = {
  id: 'npm-packages',
  title: 'npm packages',
  after: [],
  fingerprint: () =>
    fingerprint({
      files: [LOCK, path.join(checkout.root, '.npmrc')],
      texts: [process.platform, process.arch]
    }),
  isThere: async () => existsSync(INSTALLED),
  isRight: async () => isInstalled(await readFile(LOCK, 'utf8'), await readFile(INSTALLED, 'utf8')),
  async make({ signal, detail }) {
    const [command, ...args] = npm();
    detail('asking the registry');
    await requireRegistry([command, ...args], signal);
    detail('downloading and unpacking');
    // npm empties the folder in no order: this file could be left after an interruption.
    await rm(INSTALLED, { force: true });
    await runOrExplain(
      'installing npm packages',
      command,
      [...args, 'ci', '--no-audit', '--no-fund', '--loglevel=warn'],
      {
        cwd: checkout.root,
        signal,
        timeoutMs: 20 * 60_000,
        // The browser tests use the system's Chromium.
        env: { PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: '1', NODE_ENV: undefined }
      }
    );
  }
};

/**
 * Without a network npm takes minutes to report it. Other errors of the response (a mirror may not support ping) are
 * left to the installation.
 *
 * @param {[string, ...string[]]} npmCommand
 * @param {AbortSignal} signal
 */
async function requireRegistry([command, ...args], signal) {
  const options = [
    '--fetch-retries=2',
    '--fetch-retry-mintimeout=500',
    '--fetch-timeout=20000',
    '--loglevel=error'
  ];
  const ended = await run(command, [...args, 'ping', ...options], {
    cwd: checkout.root,
    signal,
    timeoutMs: 60_000
  });
  if (ended.exitCode === 0 || reasonOf(ended.stderr.join('\n')) !== 'no-network') return;
  throw await explainFailure('asking the npm registry', ended);
}

/** The npm that runs this script, else the one on PATH. */
function npm() {
  const own = process.env['npm_execpath'];
  return /** @type {[string, ...string[]]} */ (
    own && /npm-cli\.c?js$/.test(own) ? [process.execPath, own] : ['npm']
  );
}

/**
 * Whether every package of the lock file is installed in its version. Optional ones may be missing: they
 * are for other systems.
 *
 * @param {string} lockText
 * @param {string} installedText
 */
export function isInstalled(lockText, installedText) {
  const wanted = packagesOf(lockText);
  const installed = packagesOf(installedText);
  return Object.entries(wanted).every(([place, entry]) => {
    if (place === '') return true;
    const there = installed[place];
    return there ? there.version === entry.version : entry.optional === true || entry.devOptional === true;
  });
}

/**
 * @param {string} text
 * @returns {Record<string, { version?: string, optional?: boolean, devOptional?: boolean }>}
 */
function packagesOf(text) {
  return JSON.parse(text).packages ?? {};
}
