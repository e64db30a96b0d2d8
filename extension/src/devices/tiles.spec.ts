import type { DevicesPage, SdkFigures } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { deviceFigures, devices, machineSample } from '../events/samples.spec-data.js';
import { gridShape } from './heat-view.js';
import { noTelemetry } from './now-view.js';
import { holdersOf, rangesText } from './owners.js';
import { placedChips, sliceShape } from './topology-view.js';
import { areSimulated, summaryOf, tilesOf, tileText } from './tiles.js';
const GIB = 1_024 ** 3;

function tpus(count: number, hosts = 1) {
  return devices(0, {
    platform: 'tpu',
    devices: Array.from({ length: count }, (_, id) => ({
      id,
      platform: 'tpu',
      kind: 'TPU v5 lite',
      processIndex: Math.floor((id * hosts) / count),
      memoryUsedBytes: id < count / hosts ? 5 * GIB : null,
      memoryTotalBytes: id < count / hosts ? 16 * GIB : null,
      memoryPeakBytes: id < count / hosts ? 6 * GIB : null
    }))
  });
}

function sampleOf(count: number) {
  const figures = Array.from({ length: count }, (_, ordinal) => deviceFigures(ordinal));
  return machineSample(1, { devices: figures }).machine;
}

/** Links by name and score; device 1 is throttled. */
function sdkOf(...links: (readonly [name: string, score: number])[]): SdkFigures {
  const state = (score: number) =>
    score === 0 ? 'ok' : score <= 5 ? 'transient' : score <= 9 ? 'minor' : 'unusable';
  return {
    time: 1,
    tensorCorePercent: [],
    throttlePercent: [{ device: 1, percent: 30 }],
    links: links.map(([name, score]) => ({ name, score, state: state(score) }))
  };
}

const page = (chips: DevicesPage['chips'], fields: Partial<DevicesPage> = {}): DevicesPage => ({
  accelerator: { type: 'v5litepod-8', workerId: '0', processBounds: null, chipsPerProcessBounds: null },
  ...{ chips, specs: [], sample: sampleOf(0), runtime: { uptimeS: null, errors: null, distributions: [] } },
  sampleHz: 2,
  ...fields
});
const chip = (index: number, owners: DevicesPage['chips'][number]['owners'] = []) => ({
  ...{ index, pciAddress: `0000:0${index}`, pciDevice: '0x0063', name: 'v5e', node: `/dev/vfio/${index}` },
  owners
});

describe('tiles of devices', () => {
  it('come from the sampler alone when no kernel has used the chips', () => {
    const tiles = tilesOf(sampleOf(4), null, page([0, 1, 2, 3].map(n => chip(n))));
    expect(tiles.map(({ id }) => id)).toEqual([0, 1, 2, 3]);
    expect(tiles[0]).toMatchObject({ kind: 'v5e', dutyPercent: 87, memory: { text: '11.0 / 16.0 GiB' } });
  });

  it("join the view from outside with the runtime's view from inside", () => {
    const [first] = tilesOf(sampleOf(4), tpus(4), null);
    expect(first).toMatchObject({ kind: 'TPU v5 lite', dutyPercent: 87, peakBytes: 6 * GIB });
    // The sampler is the newer of the two.
    expect(first?.memory?.usedBytes).toBe(11 * GIB);
  });

  it('come from the runtime alone where there is no sampler', () => {
    const tiles = tilesOf(null, tpus(2), null);
    expect(tiles[0]).toMatchObject({ dutyPercent: null, memory: { usedBytes: 5 * GIB } });
  });

  it('are simulated when they are the CPU itself, not when chips report metrics beside such a runtime', () => {
    expect(areSimulated(sampleOf(0), devices(8))).toBe(true);
    expect(areSimulated(null, devices(8))).toBe(true);
    expect(areSimulated(sampleOf(8), devices(8))).toBe(false);
    expect(areSimulated(sampleOf(0), tpus(8))).toBe(false);
    expect(areSimulated(sampleOf(0), null)).toBe(false);
  });

  it('of a slice have metrics on this machine, and none on the other hosts', () => {
    const tiles = tilesOf(sampleOf(4), tpus(16, 4), null);
    expect(tiles).toHaveLength(16);
    expect(tiles.filter(({ dutyPercent }) => dutyPercent !== null).map(({ id }) => id)).toEqual([0, 1, 2, 3]);
    expect(new Set(tiles.map(({ processIndex }) => processIndex)).size).toBe(4);
  });

  it('of a slice are in one list where each host reports its own devices', () => {
    const runtime = tpus(8, 2);
    const known = { memoryUsedBytes: 3 * GIB, memoryTotalBytes: 16 * GIB, memoryPeakBytes: 4 * GIB };
    const filled = { ...runtime, devices: runtime.devices.map(device => ({ ...device, ...known })) };
    const tiles = tilesOf(sampleOf(4), filled, null);
    expect(tiles.map(({ processIndex, id }) => `${processIndex}:${id}`)).toEqual([
      '0:0',
      '0:1',
      '0:2',
      '0:3',
      '1:4',
      '1:5',
      '1:6',
      '1:7'
    ]);
    expect(tiles[7]?.memory?.usedBytes).toBe(3 * GIB);
    expect(tiles.filter(({ dutyPercent }) => dutyPercent !== null).map(({ id }) => id)).toEqual([0, 1, 2, 3]);
  });

  it('describe the known data of a device in one line, and nothing else', () => {
    const [tile] = tilesOf(sampleOf(1), null, null);
    expect(tile && tileText(tile)).toBe(
      'device 0, chip 0: busy 87% · memory 11.0 / 16.0 GiB · bandwidth 41% · 1 program queued'
    );
    const [bare] = tilesOf(null, devices(1), null);
    expect(bare && tileText(bare)).toBe('device 0, CPU, host 0');
  });

  it('are summed up, with a total only when each device has a value', () => {
    expect(summaryOf(tilesOf(sampleOf(4), null, null))).toMatchObject({
      dutyPercent: 87,
      memory: { text: '44.0 / 64.0 GiB' },
      full: []
    });
    expect(summaryOf(tilesOf(sampleOf(4), tpus(16, 4), null)).memory).toBeNull();
    const full = machineSample(1, { devices: [deviceFigures(3, { hbmUsedBytes: 15.5 * GIB })] });
    expect(summaryOf(tilesOf(full.machine, null, null)).full).toEqual([3]);
  });

  it("show the SDK's data about the machine: throttling by device, and the worst link of each chip", () => {
    const filled = {
      ...sampleOf(4),
      sdk: sdkOf(['tray1.chip0.ici0', 0], ['tray1.chip2.ici0', 6], ['tray1.chip2.ici1', 3])
    };
    const tiles = tilesOf(filled, null, null);
    expect(tiles.map(({ throttlePercent }) => throttlePercent)).toEqual([null, 30, null, null]);
    expect(tiles.map(({ link }) => link)).toEqual(['healthy', null, 'minor', null]);
    expect(summaryOf(tiles)).toMatchObject({ throttled: [1], link: 'minor' });
  });

  it('show the TensorCore use of each device, where the SDK reports just these devices', () => {
    const filled = (...tensorCorePercent: (number | null)[]) => {
      const sdk = { time: 1, tensorCorePercent, throttlePercent: [], links: [] };
      return tilesOf({ ...sampleOf(2), sdk }, null, null);
    };
    const [first, second] = filled(63.4, null);
    expect(first && tileText(first)).toContain('busy 87% · TensorCore 63% · memory');
    expect(second && tileText(second)).not.toContain('TensorCore');
    // For another number of devices the figures cannot be assigned.
    expect(filled(63.4).map(({ tensorCorePercent }) => tensorCorePercent)).toEqual([null, null]);
  });

  it('continue chip numbers over trays, and claim nothing where that is uncertain', () => {
    const whole = sdkOf(
      ['tray2.chip0.ici0', 10],
      ['tray1.chip1.ici0', 0],
      ['tray1.chip0.ici0', 0],
      ['tray2.chip1.ici0', 1]
    );
    const states = (sdk: SdkFigures) => tilesOf({ ...sampleOf(4), sdk }, null, null).map(({ link }) => link);
    expect(states(whole)).toEqual(['healthy', 'healthy', 'unusable', 'transient']);
    expect(states({ ...whole, links: whole.links.slice(1) })).toEqual([null, null, null, null]);
  });
});

describe('a grid of cells', () => {
  it('holds 256 devices in the narrow panel without scrolling sideways', () => {
    const { columns, rows, pitch } = gridShape(256, 270);
    expect(columns * rows).toBeGreaterThanOrEqual(256);
    expect(columns * pitch).toBeLessThanOrEqual(270);
    expect(rows * pitch).toBeLessThanOrEqual(300);
  });

  it.each([
    [1, 270],
    [65, 50],
    [100, 1]
  ])('has a cell for each of %d devices in %d pixels', (count, width) => {
    const { columns, rows } = gridShape(count, width);
    expect(columns).toBeGreaterThanOrEqual(1);
    expect(columns * rows).toBeGreaterThanOrEqual(count);
  });
});

describe('the shape of a slice', () => {
  it('follows from the bounds of processes and of chips', () => {
    const shape = sliceShape({
      type: 'v4-32',
      workerId: '1',
      processBounds: '1,1,4',
      chipsPerProcessBounds: '2,2,1'
    });
    expect(shape?.chips).toEqual([2, 2, 4]);
    const chips = shape ? placedChips(shape) : [];
    expect(chips).toHaveLength(16);
    expect(chips.filter(({ host }) => host === 1).map(({ x, y, z }) => [x, y, z])).toEqual([
      [0, 0, 1],
      [1, 0, 1],
      [0, 1, 1],
      [1, 1, 1]
    ]);
    expect(chips.filter(({ host }) => host === 1).map(({ local }) => local)).toEqual([0, 1, 2, 3]);
  });

  it.each([null, '', 'a,b', '0,1,1', '2,2,2,2', '1e9,1,1', '-2,2,1'])('is unknown for %j', bounds => {
    expect(
      sliceShape({ type: null, workerId: null, processBounds: bounds, chipsPerProcessBounds: '1,1,1' })
    ).toBeNull();
  });
});

describe('who holds the chips', () => {
  it('is a process with its kernel, notebook and chips', () => {
    const owner = { pid: 41, command: 'python', kernelId: 'k' };
    const other = { pid: 7, command: 'train', kernelId: null };
    const holders = holdersOf(page([chip(0, [owner]), chip(1, [owner]), chip(2, [other])]), null, id =>
      id === 'k' ? 'a.ipynb' : null
    );
    expect(holders).toMatchObject([
      { pid: 41, command: 'python', kernel: { id: 'k' }, document: 'a.ipynb', chips: [0, 1] },
      { pid: 7, command: 'train', kernel: null, document: null, chips: [2] }
    ]);
  });

  it.each([
    [[], ''],
    [[3], '3'],
    [[0, 1, 2, 3], '0–3'],
    [[5, 0, 2, 1], '0–2, 5']
  ])('has numbers %j written as %j', (numbers, text) => {
    expect(rangesText(numbers)).toBe(text);
  });
});

describe('a machine without chip metrics', () => {
  const state = (name: 'idle' | 'failing' | 'no-chips' | 'serving', detail: string | null = null) =>
    machineSample(1, { metrics: { state: name, detail } }).machine;
  const why = (
    ...[sample, chips, runtime]: [
      ReturnType<typeof state>,
      DevicesPage | null,
      ReturnType<typeof tpus> | null
    ]
  ) => noTelemetry({ sample, page: chips, runtime });

  it('names the actual cause', () => {
    const held = page([chip(0, [{ pid: 1, command: 'x', kernelId: null }])]);
    expect(why(state('no-chips'), null, null)?.text).toContain('has no TPU');
    expect(why(state('idle'), page([chip(0)]), null)?.text).toContain('The chips are free');
    // Chips that the machine does not list, or has not listed yet, may belong to anyone.
    expect(why(state('idle'), page([]), null)?.text).toMatch(
      /^No chip is listed and no process reports metrics/
    );
    expect(why(state('idle'), null, null)?.text).toMatch(/^Chip metrics appear when/);
    expect(why(state('idle'), held, null)).toMatchObject({ act: true });
    expect(why(state('idle'), held, null)?.text).toContain('serves no metrics');
    expect(why(state('idle'), page([chip(0)]), devices(8))?.text).toContain('computes on the CPU');
    expect(why(state('failing', 'port 8431: refused'), null, null)?.text).toContain('port 8431: refused');
  });

  it('shows nothing where there is nothing to report', () => {
    expect(why(state('serving'), null, null)).toBeNull();
    expect(why(state('no-chips'), null, devices(8))).toBeNull();
  });
});
