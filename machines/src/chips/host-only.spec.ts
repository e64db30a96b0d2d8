import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ChipTable } from './chip-table.js';
import { HostOnly } from './host-only.js';
import { FakeMachine } from '../../../kernel-bridge/src/devices/testing/fake-machine.js';
import { GENERATIONS } from '../../../kernel-bridge/src/devices/testing/traces.js';

let folder: string;
let machine: FakeMachine;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-slice-'));
  machine = await FakeMachine.make();
});
afterEach(async () => {
  await machine[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

it('kernels use only the chips of their own host, even under the next gateway', async () => {
  await machine.addChips({ ...GENERATIONS.find(({ name }) => name === 'v5e')!, chips: 4 });
  const hostOnly = (): HostOnly => new HostOnly(folder, new ChipTable(), machine.root);
  expect(await hostOnly().variables()).toEqual({});
  await hostOnly().set(true);
  expect(await hostOnly().variables()).toEqual({
    TPU_PROCESS_BOUNDS: '1,1,1',
    TPU_CHIPS_PER_PROCESS_BOUNDS: '2,2,1',
    TPU_VISIBLE_CHIPS: '0,1,2,3'
  });
  await hostOnly().set(false);
  expect(await hostOnly().variables()).toEqual({});
});

it('a host without chips is left unchanged', async () => {
  const hostOnly = new HostOnly(folder, new ChipTable(), machine.root);
  await hostOnly.set(true);
  expect(await hostOnly.variables()).toEqual({});
});
