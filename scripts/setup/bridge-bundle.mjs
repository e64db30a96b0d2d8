// @ts-check
/** Stage: the bridge as one folder, which is copied to a TPU VM when a user connects to it. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { fingerprint } from './fingerprint.mjs';

const PLACE = path.join(checkout.made, 'bridge');
/** @param {string} name */
const inRoot = name => path.join(checkout.root, name);

/** @type {import('./stage.mjs').Stage} */
export const bridgeBundle = {
  id: 'bridge-bundle',
  title: 'bridge for TPU VMs',
  after: ['uv', 'build', 'session-page'],
  fingerprint: () =>
    fingerprint({
      files: [
        ...[
          'package-lock.json',
          'LICENSE',
          'protocol/src',
          'platform/src',
          'environments',
          'scripts/package'
        ].map(inRoot),
        ...['package.json', 'bin', 'proto', 'src'].map(part => inRoot(`kernel-bridge/${part}`)),
        ...['host', 'src'].map(part => inRoot(`machines/${part}`)),
        ...['kernel-agent', 'recipes'].flatMap(name =>
          ['pyproject.toml', 'src'].map(part => inRoot(`${name}/${part}`)).filter(existsSync)
        )
      ]
    }),
  isThere: async () => existsSync(path.join(PLACE, 'payload.json')),
  async make({ signal, detail }) {
    // esbuild exists only after the stage of the npm packages.
    const { makeBridgeBundle } = await import('../package/bridge-bundle.mjs');
    await makeBridgeBundle(PLACE, { signal, detail });
  }
};
