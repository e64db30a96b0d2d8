import { Value } from '@sinclair/typebox/value';
import { DevicesPage, type MachineEvent, MachineEvent as Event } from '@tpulab/protocol';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ChipTable } from '../../../machines/src/chips/chip-table.js';
import { MachineSampler, type SamplerOptions } from './machine-sampler.js';
import { FakeMachine } from './testing/fake-machine.js';
import { freePort } from '../testing/free-port.js';
import { MetricServer } from './testing/metric-server.js';
import { GENERATIONS, serve, usedBytes } from './testing/traces.js';

const WAIT = { timeout: 30_000, interval: 10 };
const V6E = GENERATIONS.find(({ name }) => name === 'v6e')!;
const KERNEL = '00000000-0000-4000-8000-000000000001';

let machine: FakeMachine;
let server: MetricServer;

beforeEach(async () => {
  machine = await FakeMachine.make();
  server = await MetricServer.start(await freePort());
});

afterEach(async () => {
  await server[Symbol.asyncDispose]();
  await machine[Symbol.asyncDispose]();
});

function sampler(options: Partial<SamplerOptions> = {}): MachineSampler {
  return new MachineSampler({
    folder: `${machine.root}/state`,
    gatewayId: 'g',
    table: new ChipTable(),
    env: { TPU_RUNTIME_METRICS_PORTS: String(server.port), TPU_SKIP_MDS_QUERY: '1' },
    root: machine.root,
    log: pino({ level: 'silent' }),
    ...options
  });
}

/** The server has one second to answer a sample, and runs in this process: if the process pauses, a later sample counts. */
function servedPage(of: MachineSampler): Promise<DevicesPage> {
  return vi.waitFor(async () => {
    const page = await of.page();
    expect(page.sample.metrics.state).toBe('serving');
    return page;
  }, WAIT);
}

describe('the sampler', () => {
  it('reports chips, their holders, and the metrics of their devices', async () => {
    await machine.addChips(V6E);
    await machine.addProcess(71, 'python3', '/dev/vfio/10');
    await machine.write('proc/71/environ', `SECRET=x\0TPULAB_KERNEL_ID=${KERNEL}\0A=b`);
    await machine.addProcess(72, 'other', '/dev/vfio/11');
    await machine.write('proc/72/environ', `TPULAB_KERNEL_ID=${KERNEL}-gone\0`);
    serve(server, V6E);
    await using one = sampler({ isKernel: id => id === KERNEL });
    const page = await servedPage(one);
    expect([...Value.Errors(DevicesPage, page)]).toEqual([]);
    expect(page.chips).toHaveLength(8);
    expect(page.chips[0]?.owners).toEqual([{ pid: 71, command: 'python3', kernelId: KERNEL }]);
    expect(page.chips[1]?.owners).toEqual([{ pid: 72, command: 'other', kernelId: null }]);
    expect(page.specs.map(({ name }) => name)).toEqual(['v6e']);
    expect(page.sample.metrics.state).toBe('serving');
    expect(page.sample.devices[7]?.hbmUsedBytes).toBe(usedBytes(V6E, 7));
  });

  it('queries no process on a machine without chips', async () => {
    serve(server, V6E);
    await using one = sampler({ env: {} });
    const page = await one.page();
    expect(page).toMatchObject({
      chips: [],
      specs: [],
      sample: { devices: [], metrics: { state: 'no-chips' } }
    });
    expect(server.requests).toEqual([]);
  });

  it('reports idle chips when no process serves, and has no MFU figures for an unknown chip', async () => {
    await machine.addChips({ ...V6E, pciDevice: '0x00aa', chips: 1 });
    await server[Symbol.asyncDispose]();
    await using one = sampler();
    await vi.waitFor(
      async () =>
        expect(await one.page()).toMatchObject({
          chips: [{ name: null, pciDevice: '0x00aa' }],
          specs: [],
          sample: { metrics: { state: 'idle' } }
        }),
      WAIT
    );
  });

  it('samples often with viewers, and rarely without', async () => {
    serve(server, V6E);
    await using one = sampler({ sampleHz: 10, backgroundMs: 3_600_000 });
    const events: MachineEvent[] = [];
    using _listening = one.listen(event => events.push(event));
    const watches = [one.watch(), one.watch()];
    await vi.waitUntil(() => events.length >= 3, WAIT);
    expect([...Value.Errors(Event, events[0])]).toEqual([]);
    expect(events.slice(0, 3).map(({ machineSeq }) => machineSeq)).toEqual([1, 2, 3]);
    for (const watch of [...watches, ...watches]) watch[Symbol.dispose]();
    // One more sample may be running; after it the long interval begins, and the count is final.
    const count = events.length;
    await one.history(1);
    const page = await one.page();
    expect(page.sampleHz).toBe(10);
    expect(events.length).toBeLessThanOrEqual(count + 3);
    using _again = one.watch();
    const before = events.length;
    await vi.waitUntil(() => events.length > before + 1, WAIT);
  });

  it('records a history in the background that the next gateway can read', async () => {
    serve(server, V6E);
    {
      await using first = sampler({ backgroundMs: 5 });
      await vi.waitUntil(() => first.newest?.machine.metrics.state === 'serving', WAIT);
    }
    await using second = sampler({ sampleHz: 0 });
    const { series, times } = await second.history(60);
    expect(times.length).toBeGreaterThanOrEqual(1);
    // The first sample may be without an answer, and may even belong to the previous minute.
    expect(series['device.7.hbmUsedBytes']?.max).toContain(usedBytes(V6E, 7));
  });

  it('takes no samples automatically when that is configured', async () => {
    await using one = sampler({ sampleHz: 0, backgroundMs: 1 });
    using _watch = one.watch();
    await one.page();
    expect(one.newest?.machineSeq).toBe(1);
  });

  it('never samples faster than ten times per second', () => {
    const one = sampler({ sampleHz: 1000 });
    expect(one.sampleHz).toBe(10);
    return one[Symbol.asyncDispose]();
  });
});
