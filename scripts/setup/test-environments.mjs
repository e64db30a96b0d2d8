// @ts-check
/** Stages of `npm test`: the environments of JupyterLab and of the kernels, with pytest in addition. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { fingerprint } from './fingerprint.mjs';
import { hasPackage, isLinked, linkExtension, linkFingerprint } from './lab-environment.mjs';
import { lockOf, makePythonEnvironment, pythonIn, UV_ENV } from './python-environment.mjs';
import { runOrExplain } from './run-command.mjs';

export const testPythons = Object.freeze({
  clients: pythonIn(path.join(checkout.testEnvs, 'clients')),
  agent: pythonIn(path.join(checkout.testEnvs, 'agent')),
  server: pythonIn(path.join(checkout.testEnvs, 'server'))
});

const AGENT = path.join(checkout.root, 'kernel-agent');
/** Installed, not only put on pytest's path: tests start separate processes. */
const OURS = [AGENT, path.join(checkout.root, 'recipes')];

/** @type {readonly import('./stage.mjs').Stage[]} */
export const testEnvironments = [
  {
    id: 'test-clients',
    title: 'Python for client tests',
    after: ['uv'],
    fingerprint: () => fingerprint({ files: [lockOf('test')] }),
    isThere: async () => existsSync(testPythons.clients),
    make: context =>
      makePythonEnvironment({ name: 'test', place: path.join(checkout.testEnvs, 'clients') }, context)
  },
  {
    id: 'test-agent',
    title: 'Python for agent tests',
    after: ['uv'],
    fingerprint: () =>
      fingerprint({
        files: [
          ...[lockOf('test-jax'), lockOf('build')],
          ...OURS.map(folder => path.join(folder, 'pyproject.toml'))
        ],
        texts: [checkout.root, ...OURS]
      }),
    isThere: async () => {
      const place = path.join(checkout.testEnvs, 'agent');
      return (await hasPackage(place, 'tpulab')) && (await hasPackage(place, 'tpulab_recipes'));
    },
    make: context =>
      makePythonEnvironment(
        {
          name: 'test-jax',
          place: path.join(checkout.testEnvs, 'agent'),
          finish: building => installOwnPackages(building, context.signal)
        },
        context
      )
  },
  {
    id: 'test-server',
    title: 'Python for server tests',
    after: ['uv', 'build'],
    fingerprint: async () => fingerprint({ files: [lockOf('test-lab')], texts: [await linkFingerprint()] }),
    isThere: () => isLinked(path.join(checkout.testEnvs, 'server')),
    async make(context) {
      const place = path.join(checkout.testEnvs, 'server');
      await makePythonEnvironment({ name: 'test-lab', place }, context);
      await linkExtension(place, context);
    }
  }
];

/**
 * @param {string} environment
 * @param {AbortSignal} signal
 */
async function installOwnPackages(environment, signal) {
  const install = ['pip', 'install', '--python', pythonIn(environment), '--no-deps'];
  await runOrExplain(
    'installing the agent and the recipes',
    checkout.uv,
    [...install, '--build-constraints', lockOf('build'), ...OURS.flatMap(folder => ['--editable', folder])],
    { signal, env: UV_ENV, timeoutMs: 600_000 }
  );
}
