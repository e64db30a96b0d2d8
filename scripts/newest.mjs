// @ts-check
/**
 * `npm run test:newest`: the agent's contract tests on the newest released jax and ipykernel, in a separate environment. It
 * reports which hooks exist and what fails, and never blocks: a change in a package is not a fault of this checkout.
 * `-- --pre` includes pre-releases. `-- --lab [NAME]`: instead, browser tests of the extension in JupyterLab's newest pre-release.
 */
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { checkout } from './setup/checkout.mjs';
import { pythonIn, UV_ENV } from './setup/python-environment.mjs';
import { run, runOrExplain } from './setup/run-command.mjs';
import { setUp, START_STAGES } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { uvTool } from './setup/tools.mjs';
import { testInBrowser, versionsIn } from './test/browser-lane.mjs';

/** Newest first: a new jax drops old ones. */
const PYTHONS = ['3.14', '3.13', '3.12', '3.11'];
const TESTS = [
  'runtimes/test_jax_contract',
  'runtimes/test_capabilities',
  'compile/test_compile_watch',
  'widgets/test_live_widgets',
  'launcher/test_kernel_end_to_end'
];
const PACKAGES = ['jax', 'ipykernel', 'ipywidgets', 'pytest', 'jsonschema'];
/** What uses private parts of JupyterLab (decision 0027), and one test of each room. */
const LAB_TESTS = [
  'broken-extension',
  'kernels',
  'lab-safety',
  'panel-states',
  'reattach',
  'remotes',
  'widgets.spec'
];
const VERSIONS = `import importlib.metadata as m, platform
print('Python', platform.python_version(), *(f'{n} {m.version(n)}' for n in ('jax', 'jaxlib', 'ipykernel')), sep=', ')`;
const CAPABILITIES = `import jax
from tpulab.runtimes.capabilities import capabilities
for each in capabilities(None, None): print(' ', each['name'], 'found' if each['available'] else f"missing: {each['reason']}")`;

const { values, positionals } = parseArgs({
  options: { pre: { type: 'boolean', default: false }, lab: { type: 'boolean', default: false } },
  allowPositionals: true
});
const controller = new AbortController();
process.once('SIGINT', () => controller.abort());
process.once('SIGTERM', () => controller.abort());
const { signal } = controller;
const print = (/** @type {string} */ text) => process.stdout.write(`${text}\n`);
try {
  await (values.lab ? testLab() : testAgent());
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  print([error.message, ...error.details, 'Nothing was tested; nothing is blocked.'].join('\n'));
}

/** The version named on the command line, else the newest that uv finds. */
async function newestPython() {
  const [given] = positionals;
  if (given !== undefined) return given;
  for (const version of PYTHONS) {
    const { exitCode, stdout } = await run(
      checkout.uv,
      ['python', 'find', '--no-project', '--no-config', version],
      { signal, env: UV_ENV }
    );
    const [found] = stdout;
    if (exitCode === 0 && found !== undefined) return found.trim();
  }
  throw new SetupProblem('python_missing', 'No Python from 3.11 on was found.');
}

/** @param {string[]} args */
async function uv(...args) {
  await runOrExplain('making the environment with the newest packages', checkout.uv, args, {
    signal,
    env: UV_ENV
  });
}

async function testAgent() {
  await setUp({ stages: [uvTool], signal });
  const python = await newestPython();
  const place = path.join(checkout.testEnvs, 'newest');
  const agent = path.join(checkout.root, 'kernel-agent');
  await rm(place, { recursive: true, force: true });
  await uv('venv', '--no-project', '--no-config', '--python', python, place);
  // Resolved again each time: that is the purpose of this lane. The agent's own pins are not followed.
  await uv(
    'pip',
    'install',
    '--no-config',
    '--upgrade',
    '--refresh',
    '--python',
    pythonIn(place),
    ...(values.pre ? ['--prerelease', 'allow'] : []),
    ...PACKAGES
  );
  await uv('pip', 'install', '--no-config', '--no-deps', '--python', pythonIn(place), '--editable', agent);
  for (const code of [VERSIONS, CAPABILITIES]) {
    const { stdout } = await run(pythonIn(place), ['-c', code], { signal });
    stdout.forEach(print);
  }
  // This lane does not check that the version is the pinned one.
  const options = [
    '-q',
    '--tb=line',
    '--deselect',
    'tests/runtimes/test_jax_contract.py::test_this_is_the_version_that_the_agent_was_checked_with'
  ];
  const { exitCode } = await run(
    pythonIn(place),
    ['-m', 'pytest', ...options, ...TESTS.map(name => `tests/${name}.py`)],
    {
      cwd: agent,
      signal,
      env: { PYTHONPATH: undefined },
      onLine: print
    }
  );
  print(
    exitCode === 0
      ? 'The agent works with the newest packages.'
      : 'Some of it differs with the newest packages; nothing is blocked.'
  );
}

/** JupyterLab loads the built extension of this checkout; the server keeps its version. */
async function testLab() {
  await setUp({ stages: START_STAGES, signal });
  const place = path.join(checkout.testEnvs, 'newest-lab');
  await uv('venv', '--no-project', '--no-config', '--clear', '--python', pythonIn(checkout.lab), place);
  await uv(
    ...['pip', 'install', '--no-config', '--upgrade', '--refresh', '--python', pythonIn(place)],
    ...['--prerelease', 'allow', 'jupyterlab', 'jupyterlab-widgets']
  );
  print(await versionsIn(place, ['jupyterlab', 'jupyter_server', 'jupyterlab_widgets'], signal));
  const works = await testInBrowser(
    { place, args: positionals.length > 0 ? positionals : LAB_TESTS, env: {} },
    signal,
    print
  );
  print(
    works
      ? 'The extension works in this JupyterLab.'
      : 'Something differs in this JupyterLab; nothing is blocked.'
  );
}
