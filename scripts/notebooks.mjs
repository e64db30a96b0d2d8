// @ts-check
/** `npm run notebooks [-- NAME…]`: runs the notebooks through the bridge on this machine and saves their outputs in their files. */
import { spawnSync } from 'node:child_process';
import { checkout } from './setup/checkout.mjs';
import { testPythons } from './setup/test-environments.mjs';

const { status } = spawnSync(
  testPythons.clients,
  ['-m', 'tests.refresh_notebooks', ...process.argv.slice(2)],
  { cwd: checkout.root, stdio: 'inherit' }
);
process.exitCode = status ?? 1;
