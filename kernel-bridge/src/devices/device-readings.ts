/** The metrics of all devices at one moment, from the metric servers of this machine. */
import type { DeviceFigures, MetricsState, RuntimeDetails } from '@tpulab/protocol';
import { type Distribution, type MetricAnswer, MetricClient } from './metric-service.js';

/** The figure for each ordinal. */
type Column = ReadonlyMap<number, number>;
type Columns = Partial<Record<DeviceField, Column>>;

export interface Readings {
  readonly devices: readonly DeviceFigures[];
  readonly metrics: MetricsState;
}

/** How often slowly changing metrics are requested, and metrics unknown to the runtime are retried. */
export const SLOW_MS = 5_000;
export const UNKNOWN_MS = 60_000;

interface ReadingsOptions {
  readonly ports: readonly number[];
  readonly answerMs?: number;
  readonly now?: () => number;
}

/** The state of one metric of one server. */
interface Remembered {
  readonly column: Column | null;
  readonly until: number;
}

export class DeviceReadings implements Disposable {
  readonly #clients: readonly MetricClient[];
  readonly #now: () => number;
  readonly #remembered = new Map<string, Remembered>();

  constructor({ ports, answerMs, now = () => performance.now() }: ReadingsOptions) {
    // Several ports mean several processes, each of which reports only its own devices; a single process reports for its
    // whole host.
    const alone = ports.length > 1;
    this.#clients = ports.map(
      port => new MetricClient({ port, alone, ...(answerMs === undefined ? {} : { answerMs }) })
    );
    this.#now = now;
  }

  /** @param devicesPerChip null for an unknown chip, which is assumed to have one */
  async read(devicesPerChip: number | null): Promise<Readings> {
    const servers = await Promise.all(this.#clients.map(client => this.#readOne(client)));
    const serving = servers.filter(server => server.state === 'serving');
    const failing = servers.find(server => server.state === 'failing');
    const devices = merged(serving.map(({ columns }) => tableOf(columns, devicesPerChip ?? 1)));
    if (serving.length > 0) {
      const detail = failing ? `port ${failing.port}: ${failing.reason}` : null;
      return { devices, metrics: { state: 'serving', detail } };
    }
    if (failing)
      return { devices, metrics: { state: 'failing', detail: `port ${failing.port}: ${failing.reason}` } };
    return { devices, metrics: { state: 'idle', detail: 'no process that uses the chips serves metrics' } };
  }

  details(): Promise<RuntimeDetails> {
    return runtimeDetails(this.#clients);
  }

  async #readOne(client: MetricClient): Promise<ServerReading> {
    const [first, ...others] = DEVICE_METRICS;
    if (!first) return { state: 'idle' };
    const columns: Columns = {};
    // If the first request fails, further requests would only multiply the waiting time.
    const probe = await this.#column(client, first);
    if (probe.state === 'absent') {
      this.#forget(client);
      return { state: 'idle' };
    }
    if (probe.state === 'failed') return { state: 'failing', port: client.port, reason: probe.reason };
    if (probe.column) columns[first.field] = probe.column;
    const answers = await Promise.all(others.map(metric => this.#column(client, metric)));
    for (const [index, answer] of answers.entries()) {
      const field = others[index]?.field;
      if (field && answer.state === 'ok' && answer.column) columns[field] = answer.column;
    }
    return { state: 'serving', columns };
  }

  async #column(client: MetricClient, { metric, interval }: MetricName): Promise<ColumnAnswer> {
    const key = `${client.port} ${metric}`;
    const cached = this.#remembered.get(key);
    if (cached && cached.until > this.#now()) return { state: 'ok', column: cached.column };
    const answer = await client.metric(metric);
    if (answer.state === 'unknown') {
      this.#remembered.set(key, { column: null, until: this.#now() + UNKNOWN_MS });
      return { state: 'ok', column: null };
    }
    if (answer.state !== 'ok') return answer;
    const column = columnOf(answer);
    if (interval === 'slow') this.#remembered.set(key, { column, until: this.#now() + SLOW_MS });
    return { state: 'ok', column };
  }

  /** Called when a process ends: the next one may use another runtime. */
  #forget({ port }: MetricClient): void {
    for (const key of this.#remembered.keys()) if (key.startsWith(`${port} `)) this.#remembered.delete(key);
  }

  [Symbol.dispose](): void {
    for (const client of this.#clients) client[Symbol.dispose]();
  }
}

type ServerReading =
  | { readonly state: 'serving'; readonly columns: Columns }
  | { readonly state: 'idle' }
  | { readonly state: 'failing'; readonly port: number; readonly reason: string };

type ColumnAnswer =
  | { readonly state: 'ok'; readonly column: Column | null }
  | Exclude<MetricAnswer, { state: 'ok' | 'unknown' }>;

/** Points without an ordinal describe the whole process, not a device. */
function columnOf({ points }: Extract<MetricAnswer, { state: 'ok' }>): Column {
  const column = new Map<number, number>();
  for (const { ordinal, value } of points) if (ordinal !== null && value !== null) column.set(ordinal, value);
  return column;
}

/** One row per device. The memory metric defines the devices, because it always exists for each device. */
function tableOf(columns: Columns, devicesPerChip: number): DeviceFigures[] {
  const memory = columns.hbmUsedBytes ?? columns.hbmTotalBytes;
  const readings = memory && memory.size > 0 ? [memory] : Object.values(columns);
  const ordinals = [...new Set(readings.flatMap(column => [...column.keys()]))].sort((a, b) => a - b);
  const figure = (field: DeviceField, ordinal: number): number | null => {
    const column = columns[field];
    if (!column) return null;
    // v2 and v3 report one duty cycle for both devices of a chip. Half as many values as devices indicate this, for any
    // generation.
    const perChip = devicesPerChip > 1 && column.size * devicesPerChip === ordinals.length;
    return column.get(perChip ? Math.floor(ordinal / devicesPerChip) : ordinal) ?? null;
  };
  return ordinals.map(ordinal => ({
    ordinal,
    chip: Math.floor(ordinal / devicesPerChip),
    hbmUsedBytes: figure('hbmUsedBytes', ordinal),
    hbmTotalBytes: figure('hbmTotalBytes', ordinal),
    dutyCyclePercent: figure('dutyCyclePercent', ordinal),
    hbmBandwidthPercent: figure('hbmBandwidthPercent', ordinal),
    idleS: figure('idleS', ordinal),
    hloQueueSize: figure('hloQueueSize', ordinal)
  }));
}

/**
 * Several processes with one chip each number their devices from 0, or as the host does. If two have the same number, all
 * number from 0, and are sorted by port.
 */
function merged(tables: readonly DeviceFigures[][]): DeviceFigures[] {
  const ordinals = tables.flatMap(table => table.map(({ ordinal }) => ordinal));
  if (new Set(ordinals).size === ordinals.length) return tables.flat().sort((a, b) => a.ordinal - b.ordinal);
  let devices = 0;
  let chips = 0;
  return tables.flatMap(table => {
    const moved = table.map(row => ({
      ...row,
      ordinal: row.ordinal + devices,
      chip: row.chip === null ? null : row.chip + chips
    }));
    devices += 1 + Math.max(-1, ...table.map(({ ordinal }) => ordinal));
    chips += 1 + Math.max(-1, ...table.map(({ chip }) => chip ?? -1));
    return moved;
  });
}

const NONE: RuntimeDetails = { uptimeS: null, errors: null, distributions: [] };

/**
 * Further metrics of the runtime: its uptime, the duration of programs and transfers, errors between hosts. Requested on
 * demand, not sampled: these are totals over the life of the process. Uses the first server that has them.
 */
async function runtimeDetails(clients: readonly MetricClient[]): Promise<RuntimeDetails> {
  for (const client of clients) {
    // If a runtime cannot list its metrics, all known metrics are requested.
    const supported = await client.supported();
    const has = (metric: string): boolean => supported?.has(metric) ?? true;
    const uptime = has(UPTIME_METRIC) ? await client.metric(UPTIME_METRIC) : null;
    if (uptime?.state === 'absent' || uptime?.state === 'failed') continue;
    const [errors, ...answers] = await Promise.all([
      has(ERROR_METRIC) ? client.metric(ERROR_METRIC) : null,
      ...DISTRIBUTION_METRICS.map(({ metric }) => (has(metric) ? client.metric(metric) : null))
    ]);
    const distributions = answers.flatMap((answer, index) => {
      const of = DISTRIBUTION_METRICS[index];
      if (answer?.state !== 'ok' || !of) return [];
      return answer.points.flatMap(({ ordinal, labels, distribution }) => {
        if (!distribution) return [];
        const { count, mean } = distribution;
        const [p50, p90, p99] = [0.5, 0.9, 0.99].map(share => quantile(distribution, share));
        return [
          { ...of, ordinal, labels, count, mean, p50: p50 ?? null, p90: p90 ?? null, p99: p99 ?? null }
        ];
      });
    });
    const uptimeS = uptime?.state === 'ok' ? (uptime.points[0]?.value ?? null) : null;
    const values = errors?.state === 'ok' ? errors.points.map(({ value }) => value ?? 0) : null;
    return {
      uptimeS,
      errors: values === null ? null : values.reduce((sum, one) => sum + one, 0),
      distributions
    };
  }
  return NONE;
}

/**
 * Bucket 0 contains all values below `scale`, bucket i reaches from `scale * growth^(i-1)` to `scale * growth^i`, and the last
 * has no end. Values inside a bucket are assumed to be evenly spread, and the result always lies in [min, max].
 *
 * @returns null if nothing was counted or the buckets are not exponential
 */
export function quantile(of: Distribution, share: number): number | null {
  const { buckets, growthFactor, scale } = of;
  const total = buckets.reduce((sum, count) => sum + count, 0);
  if (total <= 0 || !(growthFactor > 1) || !(scale > 0)) return null;
  let below = 0;
  for (const [index, count] of buckets.entries()) {
    if (count > 0 && below + count >= share * total) {
      const from = index === 0 ? 0 : scale * growthFactor ** (index - 1);
      const to = index === buckets.length - 1 ? Math.max(from, of.max) : scale * growthFactor ** index;
      const value = from + (Math.max(0, share * total - below) / count) * (to - from);
      return of.max > 0 ? Math.min(Math.max(value, of.min), of.max) : value;
    }
    below += count;
  }
  return null;
}

/** A metric of libtpu's runtime that the sampler reads. */
interface MetricName {
  /** libtpu's name. */
  readonly metric: string;
  /** The field name in our figures. */
  readonly field: DeviceField;
  /** `slow`: changes rarely, or is a total over the life of the process. */
  readonly interval: 'each' | 'slow';
}

/** Figures of one device. Names end with their unit. */
const DEVICE_FIELDS = [
  'hbmUsedBytes',
  'hbmTotalBytes',
  'dutyCyclePercent',
  'hbmBandwidthPercent',
  'idleS',
  'hloQueueSize'
] as const;
type DeviceField = (typeof DEVICE_FIELDS)[number];

const DEVICE_METRICS: readonly MetricName[] = [
  { metric: 'tpu.runtime.hbm.memory.usage.bytes', field: 'hbmUsedBytes', interval: 'each' },
  { metric: 'tpu.runtime.hbm.memory.total.bytes', field: 'hbmTotalBytes', interval: 'slow' },
  { metric: 'tpu.runtime.tensorcore.dutycycle.percent', field: 'dutyCyclePercent', interval: 'each' },
  // Since v4; older chips answer that the metric is unknown.
  { metric: 'tpu.runtime.hbm.utilization.percent', field: 'hbmBandwidthPercent', interval: 'each' },
  { metric: 'tpu.runtime.tensorcore.idle_duration.seconds', field: 'idleS', interval: 'slow' },
  // Programs change faster than any sampling rate shows; an occasional sample shows whether a queue exists at all.
  { metric: 'hlo.queue.size.gauge', field: 'hloQueueSize', interval: 'slow' }
];

/** One figure for the process that serves the metrics. Served only with `ENABLE_RUNTIME_UPTIME_TELEMETRY=1`, which jax sets. */
const UPTIME_METRIC = 'tpu.runtime.uptime.seconds.gauge';

/** Distributions since the start of the process: the execution time of a program, and transfers between hosts. */
const DISTRIBUTION_METRICS: readonly { readonly metric: string; readonly unit: string }[] = [
  { metric: 'hlo.execution.timing.distribution.microseconds', unit: 'us' },
  { metric: 'megascale.dcn_transfer_latencies.microsecond.cumulative.distribution', unit: 'us' },
  { metric: 'megascale.dcn_inbound_transfer_latencies.microsecond.cumulative.distribution', unit: 'us' },
  { metric: 'megascale.host_to_device_transfer_latencies.microsecond.cumulative.distribution', unit: 'us' },
  { metric: 'megascale.device_to_host_transfer_latencies.microsecond.cumulative.distribution', unit: 'us' },
  { metric: 'megascale.collective_end_to_end_latencies.microsecond.cumulative.distribution', unit: 'us' },
  { metric: 'megascale.mxla_compute_latencies.microsecond.cumulative.distribution', unit: 'us' },
  { metric: 'megascale.grpc_tcp_min_rtt.microsecond.cumulative.distribution', unit: 'us' },
  { metric: 'megascale.grpc_tcp_delivery_rate.Mbps.cumulative.distribution', unit: 'Mbit/s' }
];

const ERROR_METRIC = 'megascale.error.detected.gauge';
