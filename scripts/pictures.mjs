// @ts-check
/** `npm run pictures`: takes the pictures of the documentation from shipped notebooks and real dialogs, and records their sources. */
import { spawnSync } from 'node:child_process';
import { recordPictures } from './check/pictures.mjs';
import { checkout } from './setup/checkout.mjs';

const args = [
  'playwright',
  'test',
  '-c',
  'ui-tests/playwright.config.ts',
  '--workers=1',
  ...process.argv.slice(2)
];
const env = { ...process.env, TPULAB_SCREENSHOTS: '1' };
const { status } = spawnSync('npx', args, { cwd: checkout.root, env, stdio: 'inherit' });
if (status === 0) recordPictures(checkout.root);
process.exitCode = status ?? 1;
