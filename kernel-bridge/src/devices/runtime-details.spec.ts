import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DeviceReadings } from './device-readings.js';
import type { Distribution } from './metric-service.js';
import { quantile } from './device-readings.js';
import { freePort } from '../testing/free-port.js';
import { MetricServer } from './testing/metric-server.js';
import { ordinal } from './testing/traces.js';

/** Buckets: below 10, 10 to 20, 20 to 40, 40 and more. */
const of = (buckets: number[], max = 100): Distribution => ({
  count: buckets.reduce((sum, one) => sum + one, 0),
  mean: 15,
  min: 1,
  max,
  growthFactor: 2,
  scale: 10,
  buckets
});

describe('a quantile', () => {
  it.each([
    [[0, 10, 0, 0], 0.5, 15],
    [[10, 0, 0, 0], 0.5, 5],
    [[5, 0, 5, 0], 1, 40],
    [[0, 0, 0, 4], 0.5, 70],
    [[0, 4, 0, 4], 0.75, 70]
  ])('of the buckets %j at %f is %f', (buckets, share, value) => {
    expect(quantile(of(buckets), share)).toBe(value);
  });

  it('never leaves the observed range, and is unknown when nothing was observed', () => {
    expect(quantile(of([0, 10, 0, 0], 12), 1)).toBe(12);
    expect(quantile(of([0, 0]), 0.5)).toBeNull();
    expect(quantile({ ...of([1, 1]), growthFactor: 0 }, 0.5)).toBeNull();
  });
});

describe('details of the runtime', () => {
  let server: MetricServer;

  beforeEach(async () => {
    server = await MetricServer.start(await freePort());
  });

  afterEach(async () => server[Symbol.asyncDispose]());

  it('are uptime, errors and the distributions of times, with the device and the size of a transfer', async () => {
    const distribution = {
      count: 10,
      mean: 15,
      min: 10,
      max: 20,
      bucket_options: { exponential_buckets: { growth_factor: 2, scale: 10 } },
      bucket_counts: [0, 10, 0, 0]
    };
    server.metrics.set('tpu.runtime.uptime.seconds.gauge', [{ gauge: { as_double: 12.5 } }]);
    server.metrics.set('megascale.error.detected.gauge', [{ gauge: { as_int: 2 } }]);
    server.metrics.set('hlo.execution.timing.distribution.microseconds', [
      { attribute: ordinal(1, 'list'), distribution }
    ]);
    server.metrics.set('megascale.dcn_transfer_latencies.microsecond.cumulative.distribution', [
      {
        attribute: {
          key: 'x',
          value: { kvlist_attr: { attributes: [{ key: 'buffer_size', value: { string_attr: '8MB+' } }] } }
        },
        distribution
      }
    ]);
    using readings = new DeviceReadings({ ports: [server.port], answerMs: 30_000 });
    const spread = { count: 10, mean: 15, p50: 15, p90: 19, unit: 'us' };
    expect(await readings.details()).toMatchObject({
      uptimeS: 12.5,
      errors: 2,
      distributions: [
        { ...spread, ordinal: 1, labels: { core_type: 'TENSOR_CORE' } },
        { ...spread, ordinal: null, labels: { buffer_size: '8MB+' } }
      ]
    });
  });

  it('are empty when no process serves them', async () => {
    await server[Symbol.asyncDispose]();
    using readings = new DeviceReadings({ ports: [server.port], answerMs: 30_000 });
    expect(await readings.details()).toEqual({ uptimeS: null, errors: null, distributions: [] });
    server = await MetricServer.start(await freePort());
  });
});
