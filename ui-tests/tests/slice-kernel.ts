/** A Lab that offers a slice of processes on this machine as a kernel. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ENV_DIR } from '../lab/paths.js';
import { test as labTest, type LabFixtures } from './fixtures.js';

export { expect } from './fixtures.js';

export const SLICE_KERNEL = 'tpulab-slice-try';
export const HOSTS = 2;
/** Eight devices in all, as on a single-process kernel. */
const DEVICES_PER_HOST = 4;

export const test = labTest.extend<object, Pick<LabFixtures, 'labOptions'>>({
  labOptions: [
    async ({}, use) => {
      const folder = await mkdtemp(join(tmpdir(), 'tpulab-slice-'));
      await promisify(execFile)(
        join(ENV_DIR, 'jax', 'bin', 'python'),
        [
          ...['-m', 'tpulab.slice', 'add', 'try'],
          ...['--local', String(HOSTS), '--cpu-devices', String(DEVICES_PER_HOST)]
        ],
        { env: { ...process.env, JUPYTER_DATA_DIR: folder } }
      );
      await use({ galata: true, env: { JUPYTER_PATH: folder } });
      await rm(folder, { recursive: true, force: true });
    },
    { scope: 'worker' }
  ]
});
