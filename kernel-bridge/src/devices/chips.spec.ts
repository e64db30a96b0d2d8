import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Value } from '@sinclair/typebox/value';
import { ChipSpec } from '@tpulab/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { acceleratorInfo } from './accelerator-info.js';
import { CHIPS } from '../../../machines/src/chips/chip-data.js';
import { chipOwners } from './chip-holders.js';
import { ChipTable } from '../../../machines/src/chips/chip-table.js';
import { findChips } from '../../../machines/src/chips/find-chips.js';
import { FakeMachine } from './testing/fake-machine.js';
import { GENERATIONS } from './testing/traces.js';

let machine: FakeMachine;

beforeEach(async () => {
  machine = await FakeMachine.make();
});

afterEach(async () => machine[Symbol.asyncDispose]());

describe('chips of a machine', () => {
  it.each(GENERATIONS)('of generation $name are found, with their device files', async generation => {
    await machine.addChips(generation);
    await machine.write('sys/bus/pci/devices/0000:00:01.0/vendor', '0x8086\n');
    const chips = await findChips(new ChipTable(), machine.root);
    expect(chips).toHaveLength(generation.chips);
    expect(chips.map(({ index, name }) => [index, name])).toEqual(
      chips.map((_, index) => [index, generation.name])
    );
    expect(chips[1]?.node).toBe(generation.node === 'accel' ? '/dev/accel1' : '/dev/vfio/11');
  });

  it('of an unknown generation are shown without a name; other hardware of the vendor is not shown', async () => {
    await machine.addChips({ ...GENERATIONS[3]!, pciDevice: '0x00aa', chips: 1 });
    await machine.write('sys/bus/pci/devices/0000:01:00.0/vendor', '0x1ae0\n');
    await machine.write('sys/bus/pci/devices/0000:01:00.0/device', '0x0042\n');
    await machine.write('sys/bus/pci/devices/0000:02:00.0/vendor', '0x1ae0\n');
    await machine.write('sys/bus/pci/devices/0000:02:00.0/device', '0x00bb\n');
    expect(await findChips(new ChipTable(), machine.root)).toMatchObject([
      { name: null, pciDevice: '0x00aa', node: '/dev/vfio/10' }
    ]);
  });

  it('are none if there is no sysfs', async () => {
    expect(await findChips(new ChipTable(), `${machine.root}/nowhere`)).toEqual([]);
  });

  it('have as holders the processes that have their files open', async () => {
    await machine.addProcess(71, 'python3', '/dev/vfio/10', '/dev/null', '/dev/vfio/10');
    await machine.addProcess(72, 'bash', '/dev/pts/0');
    await machine.addProcess(73, 'train (x)', '/dev/vfio/10', '/dev/vfio/11');
    const owners = await chipOwners(['/dev/vfio/10', '/dev/vfio/11', '/dev/vfio/12'], machine.root);
    expect(Object.fromEntries(owners)).toEqual({
      '/dev/vfio/10': [
        { pid: 71, command: 'python3' },
        { pid: 73, command: 'train (x)' }
      ],
      '/dev/vfio/11': [{ pid: 73, command: 'train (x)' }],
      '/dev/vfio/12': []
    });
  });
});

describe('the chip table', () => {
  it('fits its schema and finds each generation by its PCI ids', () => {
    const table = new ChipTable();
    for (const chip of CHIPS) {
      expect([chip.name, [...Value.Errors(ChipSpec, chip)]]).toEqual([chip.name, []]);
    }
    for (const { name, pciDevice, pciSubsystem } of GENERATIONS)
      expect(table.byPci(pciDevice, pciSubsystem)?.name).toBe(name);
    expect(table.byPci('0x0027', null)).toBeNull();
  });

  it('has no more usable memory than the chip contains, and counts devices within cores', () => {
    for (const { name, hbmGiB, usableGiBPerDevice, devices, tensorCores } of CHIPS) {
      // The published memory of v5p is rounded down.
      expect([name, usableGiBPerDevice! * devices <= hbmGiB! * 1.01]).toEqual([name, true]);
      expect([name, devices <= tensorCores]).toEqual([name, true]);
    }
  });

  it('reads changes and further chips from a file', async () => {
    await machine.write(
      'chips.json',
      JSON.stringify({
        chips: [
          { name: 'v6e', tflops: { bf16: 900 } },
          { name: 'next', tensorCores: 2, devices: 2, pci: [{ device: '0x0099', subsystem: null }] }
        ]
      })
    );
    const table = await ChipTable.read(`${machine.root}/chips.json`);
    expect(table.get('v6e')).toMatchObject({ tflops: { bf16: 900 }, hbmGiB: 32 });
    expect(table.byPci('0x0099', '0x0001')).toMatchObject({ name: 'next', hbmGiB: null, tflops: {} });
    expect(table.list()).toHaveLength(CHIPS.length + 1);
  });

  it('passes the agents the peak rates of the chips in a file, for each device and kind', async () => {
    expect(new ChipTable().ownPeakFlops()).toEqual({});
    await machine.write(
      'chips.json',
      JSON.stringify({
        chips: [
          { name: 'v6e', tflops: { bf16: 900 } },
          { name: 'v4', tflops: { int8: 275 } },
          { name: 'next', tensorCores: 2, devices: 2, deviceKinds: ['TPU next'], tflops: { bf16: 5000 } }
        ]
      })
    );
    const table = await ChipTable.read(`${machine.root}/chips.json`);
    expect(table.ownPeakFlops()).toEqual({
      'TPU v6 lite': 900e12,
      'TPU v6e': 900e12,
      'TPU v4': null,
      'TPU next': 2500e12
    });
  });

  it.each([
    ['{', 'not JSON'],
    ['{"chips": {}}', 'should be'],
    ['{"chips": [{"name": "next"}]}', 'next'],
    ['{"chips": [{"name": "v6e", "hbmGiB": "32"}]}', 'v6e.hbmGiB'],
    ['{"chips": [{"name": "v6e", "hbmGib": 32}]}', 'v6e.hbmGib'],
    ['{"chips": [{"name": "v6e"}, {"name": "v6e"}]}', 'two chips']
  ])('refuses %s with the reason', async (text, why) => {
    await machine.write('chips.json', text);
    await expect(ChipTable.read(`${machine.root}/chips.json`)).rejects.toMatchObject({
      code: 'chip_table_unusable',
      message: expect.stringContaining(why) as string
    });
  });

  it('refuses a missing file', async () => {
    await expect(ChipTable.read(`${machine.root}/none.json`)).rejects.toMatchObject({
      code: 'chip_table_unusable',
      message: expect.stringContaining('ENOENT') as string
    });
  });
});

describe('the accelerator', () => {
  /** The server runs in this process; if the process pauses, both sides pause. */
  const timeoutMs = 30_000;
  const NONE = { type: null, workerId: null, processBounds: null, chipsPerProcessBounds: null };

  async function metadata(answer: { status?: number; flavor?: boolean; body?: string } | 'silence') {
    const requests: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      requests.push(request.url, request.headers['metadata-flavor'] as string | undefined);
      if (answer === 'silence') return;
      const { status = 200, flavor = true, body = '' } = answer;
      response.writeHead(status, flavor ? { 'metadata-flavor': 'Google' } : {}).end(body);
    });
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return {
      url,
      asked: requests,
      [Symbol.asyncDispose]: () =>
        new Promise<void>(resolve => {
          server.closeAllConnections();
          server.close(() => resolve());
        })
    };
  }

  it('comes from the metadata server, unless the environment overrides it', async () => {
    await using server = await metadata({
      body: "ACCELERATOR_TYPE: 'v5litepod-8'\nWORKER_ID: '0'\nTPU_PROCESS_BOUNDS: '1,1,1'\nZONE: x\n: bad\n"
    });
    expect(await acceleratorInfo({ TPU_WORKER_ID: '3' }, { url: server.url, timeoutMs })).toEqual({
      type: 'v5litepod-8',
      workerId: '3',
      processBounds: '1,1,1',
      chipsPerProcessBounds: null
    });
    expect(server.asked).toEqual(['/computeMetadata/v1/instance/attributes/tpu-env', 'Google']);
  });

  it('reads the address of the metadata server from the environment, as jax does', async () => {
    await using server = await metadata({ body: 'ACCELERATOR_TYPE: v6e-8' });
    const env = { GCE_METADATA_IP: server.url.replace('http://', '') };
    expect(await acceleratorInfo(env, { timeoutMs })).toMatchObject({ type: 'v6e-8' });
  });

  it.each([{ status: 404 }, { flavor: false, body: 'ACCELERATOR_TYPE: portal' }, { body: '<html>' }])(
    'is unknown when the server answers %j',
    async answer => {
      await using server = await metadata(answer);
      expect(await acceleratorInfo({}, { url: server.url, timeoutMs })).toEqual(NONE);
    }
  );

  it('is unknown when the server does not answer, or does not exist', async () => {
    await using server = await metadata('silence');
    expect(await acceleratorInfo({}, { url: server.url, timeoutMs: 50 })).toEqual(NONE);
    expect(await acceleratorInfo({}, { url: 'http://127.0.0.1:1' })).toEqual(NONE);
  });

  it('is not queried if TPU_SKIP_MDS_QUERY is set', async () => {
    await using server = await metadata({ body: 'ACCELERATOR_TYPE: v6e-8' });
    expect(await acceleratorInfo({ TPU_SKIP_MDS_QUERY: '1' }, { url: server.url })).toEqual(NONE);
    expect(server.asked).toEqual([]);
  });
});
