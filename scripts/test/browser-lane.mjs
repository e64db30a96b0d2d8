// @ts-check
/** Browser tests with another JupyterLab than the one of this checkout: lanes that report and never block. */
import { pythonIn } from '../setup/python-environment.mjs';
import { run } from '../setup/run-command.mjs';
import { requireChromium } from './chromium.mjs';
import { inRoot } from './steps.mjs';

/**
 * @param {{ place: string, args: readonly string[], env: Record<string, string> }} lane its JupyterLab's environment, arguments of
 *   Playwright, and further variables
 * @param {AbortSignal} signal
 * @param {(line: string) => void} print
 * @returns {Promise<boolean>} whether all tests passed
 */
export async function testInBrowser({ place, args, env }, signal, print) {
  const playwright = inRoot('node_modules/@playwright/test/cli.js');
  const { exitCode } = await run(
    process.execPath,
    [
      ...[playwright, 'test', '-c', inRoot('ui-tests/playwright.config.ts')],
      ...['--reporter=list', '--workers=1', ...args]
    ],
    {
      signal,
      env: { TPULAB_LAB_ENV: place, TPULAB_CHROMIUM: await requireChromium(signal, print), ...env },
      onLine: print
    }
  );
  return exitCode === 0;
}

/**
 * @param {string} place environment
 * @param {readonly string[]} names packages
 * @param {AbortSignal} signal
 * @returns {Promise<string>} the packages with their versions
 */
export async function versionsIn(place, names, signal) {
  const code = `import importlib.metadata as m; print(', '.join(f'{n} {m.version(n)}' for n in ${JSON.stringify(names)}))`;
  return (await run(pythonIn(place), ['-c', code], { signal })).stdout.join('\n');
}
