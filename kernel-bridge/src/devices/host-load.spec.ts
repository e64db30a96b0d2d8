import { Value } from '@sinclair/typebox/value';
import { HostFigures } from '@tpulab/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { HostLoad } from './host-load.js';
import { FakeMachine } from './testing/fake-machine.js';

let machine: FakeMachine;

beforeEach(async () => {
  machine = await FakeMachine.make();
});

afterEach(async () => machine[Symbol.asyncDispose]());

interface Counted {
  readonly busy: number;
  readonly idle: number;
  readonly sectors?: number;
  readonly network?: number;
}

async function set({ busy, idle, sectors = 0, network = 0 }: Counted): Promise<void> {
  await machine.write('proc/stat', `cpu  ${busy} 0 0 ${idle} 0 0 0 0 5 0\ncpu0 1 1 1 1\nintr 1\n`);
  await machine.write(
    'proc/diskstats',
    `   8  0 sda 1 0 ${sectors} 0 1 0 ${2 * sectors} 0\n   8  1 sda1 1 0 999999 0 1 0 999999 0\n 253 0 dm-0 1 0 999999 0 1 0 9999 0\n`
  );
  await machine.write(
    'proc/net/dev',
    `Inter-|   Receive\n face |bytes\n    lo: 999999 0 0 0 0 0 0 0 999999 0\n  eth0:${network} 0 0 0 0 0 0 0 ${3 * network} 0 0\ndocker0: 7777 0 0 0 0 0 0 0 7777\n`
  );
  await machine.write('proc/meminfo', 'MemTotal:       1000 kB\nMemFree:  100 kB\nMemAvailable:    600 kB\n');
}

describe('the load of the host', () => {
  it('has rates since the last reading, of disks and real networks only', async () => {
    let now = 1_000;
    const load = new HostLoad({ root: machine.root, platform: 'linux', now: () => now });
    await set({ busy: 100, idle: 100, sectors: 10, network: 1_000 });
    expect(await load.read()).toMatchObject({
      cpuPercent: null,
      memoryUsedBytes: 400 * 1024,
      memoryTotalBytes: 1000 * 1024,
      diskReadBytesPerS: null,
      networkSentBytesPerS: null
    });
    now += 2_000;
    await set({ busy: 130, idle: 170, sectors: 14, network: 5_000 });
    expect(await load.read()).toMatchObject({
      cpuPercent: 30,
      diskReadBytesPerS: 4 * 512 * 0.5,
      diskWrittenBytesPerS: 8 * 512 * 0.5,
      networkReceivedBytesPerS: 2_000,
      networkSentBytesPerS: 6_000
    });
  });

  it('has no negative rate when counters restart', async () => {
    let now = 0;
    const load = new HostLoad({ root: machine.root, platform: 'linux', now: () => now });
    await set({ busy: 100, idle: 100, sectors: 10, network: 1_000 });
    await load.read();
    now += 1_000;
    await set({ busy: 0, idle: 300, sectors: 0, network: 0 });
    expect(await load.read()).toMatchObject({
      cpuPercent: 0,
      diskReadBytesPerS: 0,
      networkReceivedBytesPerS: 0
    });
  });

  it('is of this machine, from /proc or Node, and null for unknown figures', async () => {
    for (const platform of ['linux', 'darwin'] as const) {
      const figures = await new HostLoad({ platform }).read();
      expect([platform, [...Value.Errors(HostFigures, figures)]]).toEqual([platform, []]);
      expect(figures.memoryTotalBytes).toBeGreaterThan(2 ** 20);
    }
    expect(await new HostLoad({ platform: 'darwin' }).read()).toMatchObject({ diskReadBytesPerS: null });
  });
});
