// @ts-check
/** Chromium for the browser tests: one on PATH, else Debian's package where that can be installed. */
import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import { run } from '../setup/run-command.mjs';
import { SetupProblem } from '../setup/setup-problem.mjs';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const MAC_APPS = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium'
];
// Without a font, sizes in the page differ and text is empty boxes.
const PACKAGES = ['chromium', 'fonts-dejavu-core'];

/** @returns {string | null} */
export function findChromium(env = process.env) {
  const named = env['TPULAB_CHROMIUM'];
  if (named) {
    if (isExecutable(named)) return named;
    throw new SetupProblem(
      'no-chromium',
      `TPULAB_CHROMIUM names ${named}, which is not a program; correct or unset the variable.`
    );
  }
  const folders = (env['PATH'] ?? '').split(path.delimiter);
  const candidates = NAMES.flatMap(name => folders.map(folder => path.join(folder, name)));
  return [...candidates, ...(process.platform === 'darwin' ? MAC_APPS : [])].find(isExecutable) ?? null;
}

/**
 * @param {AbortSignal} signal
 * @param {(text: string) => void} print
 * @returns {Promise<string>}
 */
export async function requireChromium(signal, print) {
  const found = findChromium();
  if (found) return found;
  if (process.getuid?.() === 0 && isOnPath('apt-get')) {
    print(`installing ${PACKAGES.join(' and ')}`);
    const env = { DEBIAN_FRONTEND: 'noninteractive' };
    const options = { signal, env, timeoutMs: 10 * 60_000 };
    await run('apt-get', ['update', '-q'], options);
    await run('apt-get', ['install', '-y', '-q', '--no-install-recommends', ...PACKAGES], options);
    const installed = findChromium();
    if (installed) return installed;
  }
  throw new SetupProblem(
    'no-chromium',
    `The browser tests need Chromium, and there is none on PATH; install it (Debian: apt-get install ${PACKAGES.join(' ')}; macOS: brew install --cask google-chrome) or name one with TPULAB_CHROMIUM.`
  );
}

/** @param {string} name */
function isOnPath(name) {
  return (process.env['PATH'] ?? '')
    .split(path.delimiter)
    .some(folder => isExecutable(path.join(folder, name)));
}

/** @param {string} file */
function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
