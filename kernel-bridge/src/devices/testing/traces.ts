/**
 * For specs: the metrics of a runtime on each generation of chips, derived from the chip facts: HBM for each device, duty
 * cycle for each chip on v2 and v3 and otherwise for each device, bandwidth since v4, ordinals as numbers on old runtimes
 * and as text on new ones.
 */
import type { WireAttribute, WireMetric } from '../metric-service.js';
import type { MetricServer } from './metric-server.js';

export interface Generation {
  readonly name: string;
  readonly pciDevice: string;
  readonly pciSubsystem: string | null;
  readonly chips: number;
  readonly devicesPerChip: number;
  readonly hbmBytesPerDevice: number;
  readonly dutyPer: 'chip' | 'device';
  readonly hasBandwidth: boolean;
  readonly node: 'accel' | 'vfio';
}

const GIB = 2 ** 30;

export const GENERATIONS: readonly Generation[] = [
  generation('v2', '0x0027', {
    pciSubsystem: '0x004e',
    devicesPerChip: 2,
    hbm: 8,
    dutyPer: 'chip',
    hasBandwidth: false,
    node: 'accel'
  }),
  generation('v3', '0x0027', {
    pciSubsystem: '0x004f',
    devicesPerChip: 2,
    hbm: 16,
    dutyPer: 'chip',
    hasBandwidth: false,
    node: 'accel'
  }),
  generation('v4', '0x005e', { hbm: 32, node: 'accel' }),
  generation('v5e', '0x0063', { hbm: 16, chips: 8 }),
  generation('v5p', '0x0062', { hbm: 95 }),
  generation('v6e', '0x006f', { hbm: 32, chips: 8 }),
  generation('7x', '0x0076', { hbm: 96, devicesPerChip: 2 })
];

function generation(
  name: string,
  pciDevice: string,
  { hbm, ...rest }: Partial<Generation> & { readonly hbm: number }
): Generation {
  return {
    name,
    pciDevice,
    pciSubsystem: null,
    chips: 4,
    devicesPerChip: 1,
    hbmBytesPerDevice: hbm * GIB,
    dutyPer: 'device',
    hasBandwidth: true,
    node: 'vfio',
    ...rest
  };
}

export type OrdinalStyle = 'number' | 'text' | 'list';

export function ordinal(value: number, style: OrdinalStyle): WireAttribute {
  if (style === 'number') return { key: 'device-id', value: { int_attr: value } };
  if (style === 'text') return { key: 'device-id', value: { string_attr: String(value) } };
  return {
    key: 'attributes',
    value: {
      kvlist_attr: {
        attributes: [
          { key: 'core_type', value: { string_attr: 'TENSOR_CORE' } },
          { key: 'device_ordinal', value: { string_attr: String(value) } }
        ]
      }
    }
  };
}

interface TraceOptions {
  readonly style?: OrdinalStyle;
  /** Changes all values at each step. */
  readonly step?: number;
  readonly firstChip?: number;
  readonly chips?: number;
}

/** Sets all values to one moment. */
export function serve(
  server: Pick<MetricServer, 'metrics'>,
  of: Generation,
  options: TraceOptions = {}
): void {
  const { style = 'number', step = 0, firstChip = 0, chips = of.chips } = options;
  const devices = numbers(firstChip * of.devicesPerChip, chips * of.devicesPerChip);
  const gauges = (list: readonly number[], gauge: (index: number) => WireMetric['gauge']): WireMetric[] =>
    list.map(index => ({ attribute: ordinal(index, style), gauge: gauge(index) ?? {} }));
  const set = (name: string, metrics: readonly WireMetric[]): void => void server.metrics.set(name, metrics);
  set(
    'tpu.runtime.hbm.memory.usage.bytes',
    gauges(devices, index => ({ as_int: usedBytes(of, index, step) }))
  );
  set(
    'tpu.runtime.hbm.memory.total.bytes',
    gauges(devices, () => ({ as_int: of.hbmBytesPerDevice }))
  );
  const duties = of.dutyPer === 'chip' ? numbers(firstChip, chips) : devices;
  set(
    'tpu.runtime.tensorcore.dutycycle.percent',
    gauges(duties, index => ({ as_double: dutyPercent(index, step) }))
  );
  set(
    'tpu.runtime.tensorcore.idle_duration.seconds',
    gauges(devices, index => ({ as_double: index / 2 }))
  );
  set(
    'hlo.queue.size.gauge',
    devices.map(index => ({ attribute: ordinal(index, 'list'), gauge: { as_int: index % 3 } }))
  );
  if (of.hasBandwidth) {
    set(
      'tpu.runtime.hbm.utilization.percent',
      gauges(devices, index => ({ as_double: 10 + index + step }))
    );
  }
}

export function usedBytes(of: Generation, index: number, step = 0): number {
  return Math.floor(of.hbmBytesPerDevice / 2) + index * 1024 + step;
}

export function dutyPercent(index: number, step = 0): number {
  return 50 + index + step / 100;
}

function numbers(from: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => from + index);
}
