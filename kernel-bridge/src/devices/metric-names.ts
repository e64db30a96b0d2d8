/** The metrics of libtpu's runtime that the sampler reads, with their units and how often they are worth asking for. */

export interface MetricName {
  /** As libtpu names it. */
  readonly metric: string;
  /** As our figures name it. */
  readonly field: DeviceField;
  /** `slow`: changes rarely, or is a sum over the life of the process. */
  readonly pace: 'each' | 'slow';
}

/** Figures of one device. Names end with their unit. */
export const DEVICE_FIELDS = [
  'hbmUsedBytes',
  'hbmTotalBytes',
  'dutyCyclePercent',
  'hbmBandwidthPercent',
  'idleS',
  'hloQueueSize'
] as const;
export type DeviceField = (typeof DEVICE_FIELDS)[number];

export const DEVICE_METRICS: readonly MetricName[] = [
  { metric: 'tpu.runtime.hbm.memory.usage.bytes', field: 'hbmUsedBytes', pace: 'each' },
  { metric: 'tpu.runtime.hbm.memory.total.bytes', field: 'hbmTotalBytes', pace: 'slow' },
  { metric: 'tpu.runtime.tensorcore.dutycycle.percent', field: 'dutyCyclePercent', pace: 'each' },
  // Since v4; older chips answer that they do not know it.
  { metric: 'tpu.runtime.hbm.utilization.percent', field: 'hbmBandwidthPercent', pace: 'each' },
  { metric: 'tpu.runtime.tensorcore.idle_duration.seconds', field: 'idleS', pace: 'slow' },
  // Programs come and go faster than any pace shows; now and then says whether there is a queue at all.
  { metric: 'hlo.queue.size.gauge', field: 'hloQueueSize', pace: 'slow' }
];

/** One figure for the process that serves the metrics. Served only with `ENABLE_RUNTIME_UPTIME_TELEMETRY=1`, which jax sets. */
export const UPTIME_METRIC = 'tpu.runtime.uptime.seconds.gauge';

/** Distributions since the process began: of one program's execution, and of what travels between hosts. */
export const DISTRIBUTION_METRICS: readonly { readonly metric: string; readonly unit: string }[] = [
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

export const ERROR_METRIC = 'megascale.error.detected.gauge';
