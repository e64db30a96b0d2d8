// @ts-check
/** Stage of `npm run conformance`: Python with third-party clients and suites, and the tests of jupyter_server. */
import { existsSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from '../setup/checkout.mjs';
import { fingerprint } from '../setup/fingerprint.mjs';
import { lockOf, makePythonEnvironment, pythonIn } from '../setup/python-environment.mjs';
import { runOrExplain } from '../setup/run-command.mjs';
import { SetupProblem } from '../setup/setup-problem.mjs';

const NAME = 'test-conformance';
const PLACE = path.join(checkout.testEnvs, 'conformance');
const SDIST_LOCK = path.join(checkout.definitions, NAME, 'jupyter-server-sdist.lock');
const TESTS = 'jupyter-server';

export const conformancePython = pythonIn(PLACE);
/** The required part of jupyter_server's source distribution: `tests`, and nothing that could replace the package. */
export const jupyterServerTests = path.join(PLACE, TESTS);

/** @type {import('../setup/stage.mjs').Stage} */
export const conformanceEnvironment = {
  id: 'test-conformance',
  title: "Python for other people's suites",
  fingerprint: () => fingerprint({ files: [lockOf(NAME), SDIST_LOCK] }),
  isThere: async () => existsSync(path.join(jupyterServerTests, 'tests')),
  make: context =>
    makePythonEnvironment(
      { name: NAME, place: PLACE, finish: building => unpackTests(building, context.signal) },
      context
    )
};

/**
 * uv cannot fetch a source distribution without installing it; pip can, with the build tools of the environment.
 *
 * @param {string} building
 * @param {AbortSignal} signal
 */
async function unpackTests(building, signal) {
  const downloads = path.join(building, 'downloads');
  const place = path.join(building, TESTS);
  await mkdir(downloads);
  await mkdir(place);
  const download = ['-m', 'pip', 'download', '--quiet', '--no-deps', '--no-build-isolation'];
  await runOrExplain(
    'fetching the tests of jupyter_server',
    pythonIn(building),
    [...download, '--no-binary=:all:', '--require-hashes', '-r', SDIST_LOCK, '--dest', downloads],
    { signal, timeoutMs: 600_000 }
  );
  const [archive] = await readdir(downloads);
  if (archive === undefined) {
    throw new SetupProblem('failed', "pip fetched nothing of jupyter_server; see pip's own settings.");
  }
  const top = archive.replace(/\.tar\.gz$/, '');
  await runOrExplain(
    'unpacking the tests of jupyter_server',
    'tar',
    ['-xzf', path.join(downloads, archive), '--strip-components=1', '-C', place, `${top}/tests`],
    { signal, timeoutMs: 120_000 }
  );
}
