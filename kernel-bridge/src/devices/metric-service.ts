/** libtpu's RuntimeMetricService as our .proto describes it, and the messages as they come out of the decoder. */
import { fileURLToPath } from 'node:url';
import type { ServiceDefinition } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

export const SERVICE_NAME = 'tpu.monitoring.runtime.RuntimeMetricService';

/** The same way up from `src/devices` and from `lib/devices`. */
export const PROTO_FILE = fileURLToPath(new URL('../../proto/runtime-metrics.proto', import.meta.url));

export interface WireAttribute {
  readonly key?: string;
  readonly value?: {
    readonly string_attr?: string;
    readonly bool_attr?: boolean;
    readonly int_attr?: number;
    readonly double_attr?: number;
    readonly kvlist_attr?: { readonly attributes?: readonly WireAttribute[] };
  };
}

export interface WireDistribution {
  readonly count?: number;
  readonly mean?: number;
  readonly min?: number;
  readonly max?: number;
  readonly bucket_options?: {
    readonly exponential_buckets?: { readonly growth_factor?: number; readonly scale?: number };
  };
  readonly bucket_counts?: readonly number[];
}

export interface WireMetric {
  readonly attribute?: WireAttribute;
  readonly gauge?: {
    readonly as_double?: number;
    readonly as_int?: number;
    readonly as_string?: string;
    readonly as_bool?: boolean;
  };
  readonly counter?: { readonly as_double?: number; readonly as_int?: number };
  readonly distribution?: WireDistribution;
}

export interface MetricRequest {
  readonly metric_name: string;
  readonly skip_node_aggregation: boolean;
}

export interface MetricResponse {
  readonly metric?: { readonly name?: string; readonly metrics?: readonly WireMetric[] };
}

export interface ListRequest {
  readonly filter: string;
}

export interface ListResponse {
  readonly supported_metric?: readonly { readonly metric_name?: string }[];
}

let loaded: ServiceDefinition | null = null;

/** Read once, when somebody first needs it: most machines have no TPU. */
export function metricService(): ServiceDefinition {
  if (loaded) return loaded;
  // Without keepCase a request would silently carry an empty name. Bytes of HBM fit into a double.
  const definitions = loadSync(PROTO_FILE, { keepCase: true, longs: Number, oneofs: false });
  loaded = definitions[SERVICE_NAME] as ServiceDefinition;
  return loaded;
}
