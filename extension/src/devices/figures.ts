/** The few figures of a machine that charts show: the host's, and the totals of all devices. */
import type { DevicesHistory, MachineSample } from '@tpulab/protocol';

export const FIGURES = [
  'hbm.max',
  'hbm.mean',
  'duty.mean',
  'duty.min',
  'bandwidth.mean',
  'tensorCore.mean',
  'host.cpuPercent',
  'host.memoryUsedBytes',
  'host.diskReadBytesPerS',
  'host.diskWrittenBytesPerS',
  'host.networkReceivedBytesPerS',
  'host.networkSentBytesPerS'
] as const;
/** Figures of a single device, under the names of the bridge's history. */
const DEVICE_FIELDS = [
  'hbmUsedBytes',
  'dutyCyclePercent',
  'hbmBandwidthPercent',
  'tensorCorePercent'
] as const;
export type DeviceField = (typeof DEVICE_FIELDS)[number];
type DeviceFigure = `device.${number}.${DeviceField}`;
export type Figure = (typeof FIGURES)[number] | DeviceFigure;

/** With more devices, their lines could not be distinguished. */
export const MAX_LINES = 16;

export function deviceFigure(ordinal: number, field: DeviceField): DeviceFigure {
  return `device.${ordinal}.${field}`;
}

/** Unknown figures are omitted. */
export function figuresOf({ host, devices, sdk }: MachineSample): [Figure, number][] {
  const known = (field: keyof MachineSample['devices'][number]): number[] =>
    devices.flatMap(device => device[field] ?? []);
  const [memory, duty, bandwidth] = [
    known('hbmUsedBytes'),
    known('dutyCyclePercent'),
    known('hbmBandwidthPercent')
  ];
  const all: [Figure, number | null][] = [
    ['hbm.max', largest(memory)],
    ['hbm.mean', mean(memory)],
    ['duty.mean', mean(duty)],
    ['duty.min', smallest(duty)],
    ['bandwidth.mean', mean(bandwidth)],
    ['tensorCore.mean', mean(sdk?.tensorCorePercent.flatMap(percent => percent ?? []) ?? [])],
    ['host.cpuPercent', host.cpuPercent],
    ['host.memoryUsedBytes', host.memoryUsedBytes],
    ['host.diskReadBytesPerS', host.diskReadBytesPerS],
    ['host.diskWrittenBytesPerS', host.diskWrittenBytesPerS],
    ['host.networkReceivedBytesPerS', host.networkReceivedBytesPerS],
    ['host.networkSentBytesPerS', host.networkSentBytesPerS]
  ];
  if (devices.length <= MAX_LINES) {
    devices.forEach(({ ordinal, ...fields }, at) => {
      all.push(
        [deviceFigure(ordinal, 'hbmUsedBytes'), fields.hbmUsedBytes],
        [deviceFigure(ordinal, 'dutyCyclePercent'), fields.dutyCyclePercent],
        [deviceFigure(ordinal, 'hbmBandwidthPercent'), fields.hbmBandwidthPercent],
        [deviceFigure(ordinal, 'tensorCorePercent'), sdk?.tensorCorePercent[at] ?? null]
      );
    });
  }
  return all.filter((entry): entry is [Figure, number] => entry[1] !== null);
}

/** The same figures of a history of the bridge: a column for each, NaN where unknown. */
export function historyFigures({ times, series }: DevicesHistory): ReadonlyMap<Figure, Float64Array> {
  const devices = (field: string, column: 'min' | 'mean' | 'max'): (number | null)[][] =>
    Object.entries(series)
      .filter(([name]) => name.startsWith('device.') && name.endsWith(`.${field}`))
      .map(([, columns]) => columns[column]);
  const over = (columns: readonly (number | null)[][], take: (values: number[]) => number | null) =>
    Float64Array.from(times, (_, row) => take(columns.flatMap(column => column[row] ?? [])) ?? Number.NaN);
  const figures = new Map<Figure, Float64Array>([
    ['hbm.max', over(devices('hbmUsedBytes', 'max'), largest)],
    ['hbm.mean', over(devices('hbmUsedBytes', 'mean'), mean)],
    ['duty.mean', over(devices('dutyCyclePercent', 'mean'), mean)],
    ['duty.min', over(devices('dutyCyclePercent', 'mean'), smallest)],
    ['bandwidth.mean', over(devices('hbmBandwidthPercent', 'mean'), mean)],
    ['tensorCore.mean', over(devices('tensorCorePercent', 'mean'), mean)]
  ]);
  for (const [name, { mean: column }] of Object.entries(series)) {
    if (isFigure(name)) {
      figures.set(
        name,
        Float64Array.from(column, value => value ?? Number.NaN)
      );
    }
  }
  return figures;
}

function isFigure(name: string): name is Figure {
  const field = /^device\.\d+\.(\w+)$/.exec(name)?.[1];
  const known: readonly string[] = field === undefined ? FIGURES : DEVICE_FIELDS;
  return known.includes(field ?? name);
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Not `Math.max(...)`: a call is limited in its number of arguments, and there may be more devices. */
function largest(values: readonly number[]): number | null {
  return values.reduce<number | null>((best, value) => (best === null || value > best ? value : best), null);
}

function smallest(values: readonly number[]): number | null {
  return values.reduce<number | null>((best, value) => (best === null || value < best ? value : best), null);
}
