/**
 * One tile for each device: the machine sampler's view from outside and the kernel runtime's view from inside.
 *
 * The sampler knows duty cycle and bandwidth, and continues without a kernel; the runtime knows the kind of the device and its peak
 * memory, and on some machines only the runtime knows memory at all. Null always means "unknown".
 */
import type { DevicesMessage, DevicesPage, MachineSample, RuntimeDevice } from '@tpulab/protocol';
import { type DeviceMemory, isSimulated, kindText, memoryFrom, memoryOf } from './model.js';
import { type LinkState, linksByChip, tensorCoreOf, throttleOf, worstLink } from './sdk.js';

export interface DeviceTile {
  /** Displayed number: the device of the machine, or the runtime's id. */
  readonly id: number;
  /** Position of its chip among the chips of this machine. */
  readonly chip: number | null;
  /** `TPU v5 lite`, `v5e`, `CPU`. */
  readonly kind: string;
  /** Host of a slice, if the devices belong to several hosts. */
  readonly processIndex: number | null;
  readonly memory: DeviceMemory | null;
  readonly peakBytes: number | null;
  readonly dutyPercent: number | null;
  readonly bandwidthPercent: number | null;
  /** Share of the TensorCore's peak; the duty cycle is the share of time in which it did anything. */
  readonly tensorCorePercent: number | null;
  /** How much the chip is slowed down, percent. */
  readonly throttlePercent: number | null;
  readonly link: LinkState | null;
  readonly queued: number | null;
  readonly idleS: number | null;
}

export function tilesOf(
  sample: MachineSample | null,
  runtime: DevicesMessage | null,
  page: DevicesPage | null
): DeviceTile[] {
  const inside = runtime?.devices ?? [];
  const outside = sample?.devices ?? [];
  if (outside.length === 0) {
    return inside.map(fromRuntime);
  }
  const local = localDevices(inside, outside.length);
  const seen = new Set(local);
  const chipCount = new Set(outside.map(({ chip }) => chip)).size;
  const links = linksByChip(sample?.sdk, chipCount);
  const tiles = outside.map((device, at): DeviceTile => {
    const same = local[at] ?? null;
    const reported = same ? fromRuntime(same) : null;
    const chip = page?.chips.find(({ index }) => index === device.chip);
    return {
      id: same?.id ?? device.ordinal,
      chip: device.chip,
      kind: reported?.kind ?? chip?.name ?? '',
      processIndex: reported?.processIndex ?? null,
      memory: memoryFromFigures(device.hbmUsedBytes, device.hbmTotalBytes) ?? reported?.memory ?? null,
      peakBytes: reported?.peakBytes ?? null,
      dutyPercent: bounded(device.dutyCyclePercent),
      bandwidthPercent: bounded(device.hbmBandwidthPercent),
      tensorCorePercent: tensorCoreOf(sample?.sdk, at, outside.length),
      throttlePercent: throttleOf(sample?.sdk, device.ordinal),
      link: device.chip === null ? null : (links.get(device.chip) ?? null),
      queued: device.hloQueueSize,
      idleS: device.idleS
    };
  });
  // Devices of the slice's other hosts: the runtime lists them, this machine's sampler does not. Computation on the
  // processor although there are chips is reported in words.
  const elsewhere = inside.filter(device => !seen.has(device) && device.platform !== 'cpu');
  return [...tiles, ...elsewhere.map(fromRuntime)].sort(
    (a, b) => (a.processIndex ?? 0) - (b.processIndex ?? 0) || a.id - b.id
  );
}

/** Whether the runtime's processor devices are shown: where the sampler reports chips, chips are shown instead. */
export function areSimulated(sample: MachineSample | null, runtime: DevicesMessage | null): boolean {
  return (sample?.devices.length ?? 0) === 0 && runtime !== null && isSimulated(runtime);
}

/** The runtime's devices in this machine, in order; empty where that cannot be determined. */
function localDevices(devices: readonly RuntimeDevice[], count: number): readonly RuntimeDevice[] {
  const accelerators = devices.filter(({ platform }) => platform !== 'cpu');
  if (accelerators.length === count) {
    return accelerators;
  }
  // A runtime of several processes knows memory of its own devices only; in a slice all memory is known, and this is host 0.
  const own = accelerators.filter(({ memoryTotalBytes }) => memoryTotalBytes !== null);
  const first = accelerators.filter(({ processIndex }) => processIndex === 0);
  return [own, first].find(({ length }) => length === count) ?? [];
}

function fromRuntime(device: RuntimeDevice): DeviceTile {
  return {
    id: device.id,
    chip: null,
    kind: kindText(device),
    processIndex: device.processIndex,
    memory: memoryOf(device),
    peakBytes: device.memoryPeakBytes,
    dutyPercent: null,
    bandwidthPercent: null,
    tensorCorePercent: null,
    throttlePercent: null,
    link: null,
    queued: null,
    idleS: null
  };
}

function memoryFromFigures(usedBytes: number | null, totalBytes: number | null): DeviceMemory | null {
  if (usedBytes === null || totalBytes === null || totalBytes <= 0) {
    return null;
  }
  return memoryFrom(usedBytes, totalBytes);
}

function bounded(percent: number | null): number | null {
  return percent === null ? null : Math.min(100, Math.max(0, percent));
}

export interface DevicesSummary {
  readonly count: number;
  /** Mean of the devices that report it. */
  readonly dutyPercent: number | null;
  /** Total of all devices; null when one of them does not report it. */
  readonly memory: DeviceMemory | null;
  readonly full: readonly number[];
  readonly throttled: readonly number[];
  /** Worst link of all; null when none is known. */
  readonly link: LinkState | null;
}

export function summaryOf(tiles: readonly DeviceTile[]): DevicesSummary {
  const duties = tiles.flatMap(({ dutyPercent }) => dutyPercent ?? []);
  const memories = tiles.flatMap(({ memory }) => memory ?? []);
  const usedBytes = memories.reduce((sum, memory) => sum + memory.usedBytes, 0);
  const totalBytes = memories.reduce((sum, memory) => sum + memory.totalBytes, 0);
  return {
    count: tiles.length,
    dutyPercent: duties.length > 0 ? duties.reduce((sum, duty) => sum + duty, 0) / duties.length : null,
    memory:
      memories.length === tiles.length && tiles.length > 0 ? memoryFromFigures(usedBytes, totalBytes) : null,
    full: tiles.filter(({ memory }) => memory?.nearlyFull).map(({ id }) => id),
    throttled: tiles.filter(({ throttlePercent }) => (throttlePercent ?? 0) > 0).map(({ id }) => id),
    link: worstLink(tiles.flatMap(({ link }) => link ?? []))
  };
}

/** How densely devices are drawn. */
export type Density = 'tiles' | 'compact' | 'grid';

export const TILES_UP_TO = 16;
export const COMPACT_UP_TO = 64;

export function densityFor(count: number, wanted: Density | 'auto'): Density {
  if (wanted !== 'auto') {
    return wanted;
  }
  return count <= TILES_UP_TO ? 'tiles' : count <= COMPACT_UP_TO ? 'compact' : 'grid';
}
