/** libtpu's RuntimeMetricService as described in our .proto file, and its messages in decoded form. */
import { fileURLToPath } from 'node:url';
import {
  Client,
  credentials,
  type MethodDefinition,
  type ServiceDefinition,
  type ServiceError,
  status
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const SERVICE_NAME = 'tpu.monitoring.runtime.RuntimeMetricService';

/** The same relative path from `src/devices` and from `lib/devices`. */
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

interface WireDistribution {
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

interface ListRequest {
  readonly filter: string;
}

interface ListResponse {
  readonly supported_metric?: readonly { readonly metric_name?: string }[];
}

let loaded: ServiceDefinition | null = null;

/** Loaded once, on first use: most machines have no TPU. */
export function metricService(): ServiceDefinition {
  if (loaded) return loaded;
  // Without keepCase a request would silently contain an empty name. Bytes of HBM fit into a double without loss.
  const definitions = loadSync(PROTO_FILE, { keepCase: true, longs: Number, oneofs: false });
  loaded = definitions[SERVICE_NAME] as ServiceDefinition;
  return loaded;
}

/** Converts answers of the metric service into typed points: a device and its value. */
export interface Distribution {
  readonly count: number;
  readonly mean: number;
  readonly min: number;
  readonly max: number;
  readonly growthFactor: number;
  readonly scale: number;
  readonly buckets: readonly number[];
}

interface MetricPoint {
  /** Device or chip of the figure; null if the metric covers the whole process. */
  readonly ordinal: number | null;
  /** Other attributes, for example the size class of a transfer. */
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number | null;
  readonly distribution: Distribution | null;
}

/** Attributes that name a device. */
const ORDINAL_KEYS = /^(device[-_]?(ordinal|id)|chip[-_]?id|core[-_]?id)$/i;

function pointsOf(response: MetricResponse): MetricPoint[] {
  return (response.metric?.metrics ?? []).map(pointOf);
}

function pointOf(metric: WireMetric): MetricPoint {
  const attributes = flatten(metric.attribute);
  // A single whole number is the device, however its key is spelled; in a list, the key must name a device.
  const isSingle = metric.attribute?.value?.kvlist_attr === undefined;
  let ordinal: number | null = null;
  const labels: Record<string, string> = {};
  for (const { key = '', value } of attributes) {
    const text = textOf(value);
    if (text === null) continue;
    const isOrdinal = /^\d{1,6}$/.test(text) && (ORDINAL_KEYS.test(key) || isSingle);
    if (isOrdinal && ordinal === null) ordinal = Number(text);
    else labels[key] = text;
  }
  return {
    ordinal,
    labels,
    value: valueOf(metric),
    distribution: metric.distribution ? distributionOf(metric.distribution) : null
  };
}

function flatten(attribute: WireAttribute | undefined): readonly WireAttribute[] {
  if (!attribute) return [];
  return attribute.value?.kvlist_attr?.attributes ?? [attribute];
}

/** New runtimes send ordinals as text, older ones as numbers. */
function textOf(value: WireAttribute['value']): string | null {
  const found = value?.string_attr ?? value?.int_attr ?? value?.double_attr ?? value?.bool_attr;
  return found === undefined ? null : String(found);
}

function valueOf({ gauge, counter }: WireMetric): number | null {
  const found = gauge?.as_double ?? gauge?.as_int ?? counter?.as_double ?? counter?.as_int;
  if (found !== undefined) return Number.isFinite(found) ? found : null;
  if (gauge?.as_bool !== undefined) return gauge.as_bool ? 1 : 0;
  const text = gauge?.as_string;
  return text !== undefined && text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : null;
}

function distributionOf(wire: WireDistribution): Distribution {
  const { growth_factor = 0, scale = 0 } = wire.bucket_options?.exponential_buckets ?? {};
  return {
    count: wire.count ?? 0,
    mean: wire.mean ?? 0,
    min: wire.min ?? 0,
    max: wire.max ?? 0,
    growthFactor: growth_factor,
    scale,
    buckets: wire.bucket_counts ?? []
  };
}

/* One metric server: a persistent connection to one port, and its answers. */

export type MetricAnswer =
  | { readonly state: 'ok'; readonly points: readonly MetricPoint[] }
  /** No process serves the port, so none holds the chips. */
  | { readonly state: 'absent' }
  /** This runtime has no such metric. */
  | { readonly state: 'unknown' }
  | { readonly state: 'failed'; readonly reason: string };

/** The server is on this machine; if it takes longer, it is stuck, and the next sample comes soon. */
const ANSWER_MS = 1_000;
/** Far more than thousands of devices need. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;

interface MetricClientOptions {
  readonly port: number;
  readonly answerMs?: number;
  /** Query only this process, not its whole host: used if the port of every process is known. */
  readonly alone?: boolean;
}

export class MetricClient implements Disposable {
  readonly port: number;
  readonly #client: Client;
  readonly #answerMs: number;
  readonly #alone: boolean;

  constructor({ port, answerMs = ANSWER_MS, alone = false }: MetricClientOptions) {
    this.port = port;
    this.#answerMs = answerMs;
    this.#alone = alone;
    this.#client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      // Proxy variables apply to the network, not to this machine.
      'grpc.enable_http_proxy': 0,
      'grpc.initial_reconnect_backoff_ms': 500,
      'grpc.max_reconnect_backoff_ms': 5_000,
      'grpc.max_receive_message_length': MAX_ANSWER_BYTES
    });
  }

  async metric(name: string): Promise<MetricAnswer> {
    const request: MetricRequest = { metric_name: name, skip_node_aggregation: this.#alone };
    const answer = await this.#request('GetRuntimeMetric', request);
    return answer.state === 'ok' ? { state: 'ok', points: pointsOf(answer.value) } : answer;
  }

  /** Names of the metrics that this runtime has; null if it does not report them. */
  async supported(filter = ''): Promise<ReadonlySet<string> | null> {
    const answer = await this.#request('ListSupportedMetrics', { filter });
    if (answer.state !== 'ok') return null;
    const { supported_metric } = answer.value as ListResponse;
    return new Set((supported_metric ?? []).flatMap(({ metric_name }) => metric_name ?? []));
  }

  /** Casts to the types of our description, which the decoder's output has. */
  #request(
    method: string,
    request: MetricRequest | ListRequest
  ): Promise<Exclude<MetricAnswer, { state: 'ok' }> | { state: 'ok'; value: object }> {
    const definition = metricService()[method] as MethodDefinition<object, object>;
    return new Promise(resolve => {
      this.#client.makeUnaryRequest(
        definition.path,
        definition.requestSerialize,
        definition.responseDeserialize,
        request,
        { deadline: Date.now() + this.#answerMs },
        (error, value) => {
          if (error) resolve(failureOf(error));
          else if (value === undefined) resolve({ state: 'failed', reason: 'the answer was empty' });
          else resolve({ state: 'ok', value });
        }
      );
    });
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}

function failureOf({ code, details }: ServiceError): Exclude<MetricAnswer, { state: 'ok' }> {
  if (code === status.UNAVAILABLE) return { state: 'absent' };
  if (code === status.NOT_FOUND || code === status.UNIMPLEMENTED) return { state: 'unknown' };
  if (code === status.DEADLINE_EXCEEDED) return { state: 'failed', reason: 'it does not answer in time' };
  return { state: 'failed', reason: details || `gRPC status ${code}` };
}
