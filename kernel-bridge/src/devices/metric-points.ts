/** From an answer of the metric service to typed points: which device, which value. */
import type { MetricResponse, WireAttribute, WireDistribution, WireMetric } from './metric-service.js';

export interface Distribution {
  readonly count: number;
  readonly mean: number;
  readonly min: number;
  readonly max: number;
  readonly growthFactor: number;
  readonly scale: number;
  readonly buckets: readonly number[];
}

export interface MetricPoint {
  /** Device or chip that the figure is of; null where the metric is of the whole process. */
  readonly ordinal: number | null;
  /** Other attributes, for example the size class of a transfer. */
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number | null;
  readonly distribution: Distribution | null;
}

/** Attributes that name a device. */
const ORDINAL_KEYS = /^(device[-_]?(ordinal|id)|chip[-_]?id|core[-_]?id)$/i;

export function pointsOf(response: MetricResponse): MetricPoint[] {
  return (response.metric?.metrics ?? []).map(pointOf);
}

function pointOf(metric: WireMetric): MetricPoint {
  const attributes = flatten(metric.attribute);
  // A single whole number is the device, however the key is spelled; in a list only a key that says so is.
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

/** New runtimes give ordinals as text, older ones as numbers. */
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
