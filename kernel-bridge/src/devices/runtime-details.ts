/**
 * What the runtime tells beside the figures of its devices: how long it runs, how long programs and transfers take, errors
 * between hosts. Asked for when somebody wants it, not sampled: these are sums over the life of the process.
 */
import type { RuntimeDetails } from '@tpulab/protocol';
import type { MetricClient } from './metric-client.js';
import { DISTRIBUTION_METRICS, ERROR_METRIC, UPTIME_METRIC } from './metric-names.js';
import { quantile } from './quantile.js';

const NONE: RuntimeDetails = { uptimeS: null, errors: null, distributions: [] };

/** Of the first of these servers that has them. */
export async function runtimeDetails(clients: readonly MetricClient[]): Promise<RuntimeDetails> {
  for (const client of clients) {
    // A runtime that cannot list its metrics is asked for all that we know.
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
