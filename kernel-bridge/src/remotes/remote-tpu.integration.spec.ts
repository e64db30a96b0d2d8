/** A stand-in VM with chips, a runtime that reports their metrics, and a metadata server. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { DevicesPage } from '@tpulab/protocol';
import {
  standInTpu,
  type StandInTpu,
  StandInVm,
  unavailableReason
} from '../../../tests/stand-in-vm/index.js';
import { GENERATIONS, usedBytes } from '../devices/testing/traces.js';
import { Hub } from './testing/hub.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();

describe.skipIf(why !== null)(`a machine with chips${why === null ? '' : ` (skipped: ${why})`}`, () => {
  const v5e = GENERATIONS.find(({ name }) => name === 'v5e')!;
  let tpu: StandInTpu;
  let vm: StandInVm;
  let hub: Hub;

  beforeAll(async () => {
    tpu = await standInTpu(v5e);
    vm = await StandInVm.start({ mounts: tpu.mounts, services: tpu.services });
    await vm.setMetadata({ 'instance/attributes/tpu-env': "ACCELERATOR_TYPE: 'v5litepod-8'\n" });
    await tpu.serve(1);
    hub = await Hub.start(vm.laptop);
    await hub.add();
    await hub.until('connected');
  });
  afterAll(async () => {
    await hub[Symbol.asyncDispose]();
    await vm[Symbol.asyncDispose]();
    await tpu[Symbol.asyncDispose]();
  });

  it('is reported with their type and number', async () => {
    await vi.waitFor(
      async () =>
        expect((await hub.remote()).accelerator).toEqual({ type: 'v5litepod-8', chip: 'v5e', chips: 8 }),
      { timeout: 60_000 }
    );
  });

  it('shows through the hub what its runtime reports', async () => {
    await vi.waitFor(
      async () => {
        const { body } = await hub.rest('GET', '/machines/vm/bridge/v1/devices');
        const { sample } = body as DevicesPage;
        expect(sample.devices[3]?.hbmUsedBytes).toBe(usedBytes(v5e, 3, 1));
      },
      { timeout: 60_000, interval: 200 }
    );
  });
});
