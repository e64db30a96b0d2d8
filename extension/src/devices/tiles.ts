/**
 * One tile for each device: the machine sampler's view from outside and the kernel runtime's view from inside.
 *
 * The sampler knows duty cycle and bandwidth, and continues without a kernel; the runtime knows the kind of the device and its peak
 * memory, and on some machines only the runtime knows memory at all. Null always means "unknown".
 */
import {
  type DevicesMessage,
  type DevicesPage,
  type MachineSample,
  type RuntimeDevice,
  type SdkFigures,
  secondsText,
  sizeText
} from '@tpulab/protocol';
import { type DeviceMemory, isSimulated, kindText, memoryFrom, memoryOf } from './model.js';
import { trans } from '../text/trans.js';

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
  if (outside.length === 0) return inside.map(fromRuntime);
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
  // CPU of a machine with chips is reported in words.
  const otherDevices = inside.filter(device => !seen.has(device) && device.platform !== 'cpu');
  return [...tiles, ...otherDevices.map(fromRuntime)].sort(
    (a, b) => (a.processIndex ?? 0) - (b.processIndex ?? 0) || a.id - b.id
  );
}

/** Whether the runtime's CPU devices are shown: where the sampler reports chips, chips are shown instead. */
export function areSimulated(sample: MachineSample | null, runtime: DevicesMessage | null): boolean {
  return (sample?.devices.length ?? 0) === 0 && runtime !== null && isSimulated(runtime);
}

/** The runtime's devices in this machine, in order; empty where that cannot be determined. */
function localDevices(devices: readonly RuntimeDevice[], count: number): readonly RuntimeDevice[] {
  const accelerators = devices.filter(({ platform }) => platform !== 'cpu');
  if (accelerators.length === count) return accelerators;
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
  if (usedBytes === null || totalBytes === null || totalBytes <= 0) return null;
  return memoryFrom(usedBytes, totalBytes);
}

function bounded(percent: number | null): number | null {
  return percent === null ? null : Math.min(100, Math.max(0, percent));
}

export interface DevicesSummary {
  readonly count: number;
  /** Mean of the devices that report it. */
  readonly dutyPercent: number | null;
  /** Total of all devices; null when a device does not report it. */
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

/** More devices are drawn as a grid: a row each would fill the panel. */
export const MAX_ROWS = 16;

/** All known data of a device, in one line: for a title, a readout and screen readers. */
export function tileText(tile: DeviceTile): string {
  const { id, kind, chip, processIndex, memory, peakBytes } = tile;
  const parts = [
    kind === '' ? trans.__('device %1', id) : trans.__('device %1, %2', id, kind),
    ...(chip === null ? [] : [trans.__('chip %1', chip)]),
    ...(processIndex === null ? [] : [trans.__('host %1', processIndex)])
  ];
  const figures = [
    ...(tile.dutyPercent === null ? [] : [trans.__('busy %1%', Math.round(tile.dutyPercent))]),
    ...(tile.tensorCorePercent === null
      ? []
      : [trans.__('TensorCore %1%', Math.round(tile.tensorCorePercent))]),
    ...(memory === null ? [] : [trans.__('memory %1', memory.text)]),
    ...(peakBytes === null ? [] : [trans.__('peak %1', sizeText(peakBytes))]),
    ...(tile.bandwidthPercent === null ? [] : [trans.__('bandwidth %1%', Math.round(tile.bandwidthPercent))]),
    ...(tile.queued === null ? [] : [trans._n('%1 program queued', '%1 programs queued', tile.queued)]),
    ...(tile.idleS === null || tile.idleS < 1
      ? []
      : [trans.__('idle for %1', secondsText(tile.idleS * 1_000))]),
    ...(tile.throttlePercent === null || tile.throttlePercent === 0
      ? []
      : [trans.__('throttled by %1%', Math.round(tile.throttlePercent))]),
    ...(tile.link === null ? [] : [linkText(tile.link)])
  ];
  return figures.length === 0 ? parts.join(', ') : `${parts.join(', ')}: ${figures.join(' · ')}`;
}

export function linkText(link: LinkState): string {
  switch (link) {
    case 'healthy':
      return trans.__('links healthy');
    case 'transient':
      return trans.__('a link had transient problems');
    case 'minor':
      return trans.__('a link has a persistent problem');
    case 'unusable':
      return trans.__('a link is unusable');
  }
}

/** Health of a chip's links to its neighbours, the worst of them: libtpu's 0, 1-5, 6-9 and 10. */
type LinkState = 'healthy' | 'transient' | 'minor' | 'unusable';

/** From the best to the worst. */
const LINK_ORDER: readonly LinkState[] = ['healthy', 'transient', 'minor', 'unusable'];

/** Null when none is known. */
function worstLink(links: readonly LinkState[]): LinkState | null {
  return LINK_ORDER[Math.max(-1, ...links.map(link => LINK_ORDER.indexOf(link)))] ?? null;
}

/** @param ordinal number of the device in its machine; null when the SDK does not report it */
function throttleOf(sdk: SdkFigures | undefined, ordinal: number): number | null {
  return sdk?.throttlePercent.find(({ device }) => device === ordinal)?.percent ?? null;
}

/** @param at position of the device among `count` of its machine; null unless the SDK reports exactly as many */
function tensorCoreOf(sdk: SdkFigures | undefined, at: number, count: number): number | null {
  return sdk?.tensorCorePercent.length === count ? (sdk.tensorCorePercent[at] ?? null) : null;
}

/**
 * The worst link of each chip, by the chip's position in its machine. Links are named by tray and chip
 * (`tray1.chip3.ici0`); chip numbers continue over trays only when each of the machine's chips is named, because a
 * tray with missing chips does not show where the next one begins.
 */
function linksByChip(sdk: SdkFigures | undefined, chipCount: number): ReadonlyMap<number, LinkState> {
  const named = (sdk?.links ?? []).flatMap(({ name, state }) => {
    const found = /^tray(\d+)\.chip(\d+)\./.exec(name);
    return found
      ? [
          {
            tray: Number(found[1]),
            chip: Number(found[2]),
            state: state === 'ok' ? 'healthy' : state
          } as const
        ]
      : [];
  });
  named.sort((a, b) => a.tray - b.tray || a.chip - b.chip);
  const places = [...new Set(named.map(({ tray, chip }) => `${tray}.${chip}`))];
  const isOneTray = new Set(named.map(({ tray }) => tray)).size === 1;
  const worst = new Map<number, LinkState>();
  if (!isOneTray && places.length !== chipCount) return worst;
  for (const { tray, chip, state } of named) {
    const at = places.length === chipCount ? places.indexOf(`${tray}.${chip}`) : chip;
    worst.set(at, worstLink([worst.get(at) ?? 'healthy', state]) ?? state);
  }
  return worst;
}
