// @ts-check
/** Which tests may be affected by the changes since main, for `npm test -- --changed`. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { checkout } from '../setup/checkout.mjs';
import { SetupProblem } from '../setup/setup-problem.mjs';

/** @typedef {import('./parts.mjs').Selection} Selection */

/**
 * @typedef {object} Rule
 * @property {RegExp} when a changed file, relative to the checkout
 * @property {readonly string[]} parts they run whole, unless `files` names some tests
 * @property {readonly string[]} [files] the tests of these files; `$&` is the changed file itself
 */

/** @param {readonly string[]} names */
const pages = names => names.map(name => `ui-tests/tests/${name}.spec.ts`);
const REMOTE_PAGES = pages(['remotes', 'remote-faults', 'newcomer']);

/** Features of the extension with their own browser tests; a change of any other one runs all of them. */
const PAGES_OF_FEATURE = {
  ui: ['lesson', 'diffusion'],
  compilations: ['lesson', 'panel-states', 'steering'],
  devices: ['lesson', 'panel-states', 'chip-holders'],
  reattach: ['reattach', 'gateway-killed'],
  runs: ['runs-kept', 'diffusion'],
  steps: ['lesson', 'panel-states', 'steering', 'diffusion'],
  widgets: ['widgets', 'widgets-page', 'lesson', 'diffusion']
};

/**
 * Every rule that matches a file adds to the selection. Vitest finds its specs itself, by their imports.
 *
 * @type {readonly Rule[]}
 */
export const RULES = [
  { when: /./, parts: ['check'] },
  {
    when: /^(protocol|platform|machines|kernel-bridge|extension|scripts|bench)\/|^(vitest\.config|tsconfig)/,
    parts: ['unit']
  },
  {
    when: /^(protocol|platform|machines|kernel-bridge|scripts|tests\/stand-in-vm)\//,
    parts: ['integration']
  },

  {
    when: /^kernel-agent\/tests\/(?!torch_xla\/|pytorch\/).*\btest_\w+\.py$/,
    parts: ['agent'],
    files: ['$&']
  },
  {
    when: /^kernel-agent\/(?!tests\/.*\btest_\w+\.py$)|^environments\/(jax|test-jax)\//,
    parts: ['agent', 'notebooks']
  },
  { when: /^extension\/jupyterlab_tpulab\/.*\btest_\w+\.py$/, parts: ['server'], files: ['$&'] },
  {
    when: /^extension\/(jupyterlab_tpulab\/(?!.*\btest_\w+\.py$)|pyproject)|^environments\/(lab|test-lab)\//,
    parts: ['server']
  },
  { when: /^tests\/clients\/test_\w+\.py$/, parts: ['clients'], files: ['$&'] },
  {
    when: /^tests\/clients\/(?!test_\w+\.py$)|^kernel-bridge\/src\/(channels|journal|keeper|kernels|outputs|server|sessions|wire|zmtp)\//,
    parts: ['clients']
  },
  {
    when: /^(tests|scripts)\/conformance|^kernel-bridge\/src\/(channels|kernels|server|sessions)\//,
    parts: ['conformance']
  },

  { when: /^recipes\/tests\/ddpm\/test_\w+\.py$/, parts: ['recipes'], files: ['$&'] },
  {
    when: /^recipes\/(src\/tpulab_recipes\/(ddpm|images)|tests\/ddpm)\/(?!test_\w+\.py$)|^recipes\/(tests\/)?[^/]+$|^environments\/jax\//,
    parts: ['recipes']
  },
  { when: /^tests\/notebooks\/test_\w+\.py$/, parts: ['notebooks'], files: ['$&'] },
  {
    when: /^notebooks\/|^tests\/([^/]+\.py|probes\/.*)$|^recipes\/src\/tpulab_recipes\/(ddpm|images)\//,
    parts: ['notebooks']
  },
  {
    when: /^(recipes\/(src|tests)|kernel-agent\/(src|tests\/(torch_xla|pytorch))|tests\/torch_notebooks|environments\/torch-xla)\/(?!ddpm\/)|^notebooks\//,
    parts: ['torch']
  },

  { when: /^ui-tests\/tests\/[\w-]+\.spec\.ts$/, parts: ['browser'], files: ['$&'] },
  { when: /^ui-tests\/tests\/[\w-]+\.torch\.ts$/, parts: ['torch'] },
  {
    when: /^ui-tests\/(?!tests\/[\w-]+\.(spec|torch|screenshots)\.ts$)|^extension\/(style|schema)\//,
    parts: ['browser']
  },
  {
    when: /^(extension\/src\/remotes|kernel-bridge\/src\/remotes|machines|tests\/stand-in-vm)\/(?!.*\.spec\.)/,
    parts: ['browser'],
    files: REMOTE_PAGES
  },
  ...Object.entries(PAGES_OF_FEATURE).map(([feature, names]) => ({
    when: new RegExp(`^extension/src/${feature}/(?!.*\\.spec\\.)`),
    parts: ['browser'],
    files: pages(names)
  })),
  {
    when: new RegExp(
      `^extension/src/(?!(${[...Object.keys(PAGES_OF_FEATURE), 'remotes'].join('|')})/)(?!.*\\.spec\\.)`
    ),
    parts: ['browser']
  }
];

/**
 * @param {readonly string[]} changed files, relative to the checkout
 * @param {string} since the commit with which they are compared
 * @param {(file: string) => boolean} [exists] a removed test file has nothing to run
 * @returns {Map<string, Selection>} by the name of the part; unaffected parts are missing
 */
export function selectByChanges(changed, since, exists = file => existsSync(path.join(checkout.root, file))) {
  /** @type {Map<string, Selection>} */
  const selected = new Map();
  for (const file of changed) {
    for (const { when, parts, files } of RULES) {
      if (!when.test(file)) continue;
      const named = files?.map(name => name.replace('$&', file)).filter(exists);
      if (named?.length === 0) continue;
      for (const part of parts) {
        const before = selected.get(part);
        const isWhole = !named || before?.files.length === 0;
        const all = isWhole ? [] : [...new Set([...(before?.files ?? []), ...named])];
        selected.set(part, { since, files: all });
      }
    }
  }
  return selected;
}

/**
 * The changes of this branch since it left main, committed or not, and new files that git does not ignore.
 *
 * @param {string} root
 * @returns {{ since: string, files: string[] }}
 */
export function changesSinceMain(root) {
  const git = (/** @type {string[]} */ ...args) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  const lines = (/** @type {string} */ text) => text.split('\0').filter(line => line !== '');
  try {
    const since = git(
      'merge-base',
      'HEAD',
      git('branch', '--list', 'main') === '' ? 'origin/main' : 'main'
    ).trim();
    const tracked = lines(git('diff', '--name-only', '--no-renames', '-z', since));
    const added = lines(git('ls-files', '--others', '--exclude-standard', '-z'));
    return { since, files: [...new Set([...tracked, ...added])].map(file => file.split(path.sep).join('/')) };
  } catch (error) {
    throw new SetupProblem(
      'no-changes',
      '`--changed` needs git and a branch main, to see what has changed since; name the parts instead (`npm test -- --list`).',
      { cause: error }
    );
  }
}
