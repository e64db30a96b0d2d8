import { existsSync, readFileSync } from 'node:fs';
import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MetricClient, PROTO_FILE } from './metric-service.js';
import { metricPorts } from './machine-sampler.js';
import { freePort } from '../testing/free-port.js';
import { MetricServer } from './testing/metric-server.js';

const HBM = 'tpu.runtime.hbm.memory.usage.bytes';
/** The server runs in this process; if the process pauses, both sides pause. */
const answerMs = 30_000;

describe('a metric client', () => {
  let server: MetricServer;

  beforeEach(async () => {
    server = await MetricServer.start(await freePort());
  });

  afterEach(async () => server[Symbol.asyncDispose]());

  it('sends the name of the metric, and reads ordinals given as numbers, as text and in a list', async () => {
    server.metrics.set(HBM, [
      { attribute: { key: 'device-id', value: { int_attr: 0 } }, gauge: { as_int: 17_179_869_184 } },
      { attribute: { key: 'device-id', value: { string_attr: '1' } }, gauge: { as_double: 0.5 } },
      {
        attribute: {
          key: 'x',
          value: {
            kvlist_attr: {
              attributes: [
                { key: 'core_type', value: { string_attr: '7' } },
                { key: 'device_ordinal', value: { int_attr: 2 } }
              ]
            }
          }
        },
        gauge: { as_string: '3' }
      },
      { gauge: { as_bool: true } }
    ]);
    using client = new MetricClient({ port: server.port, answerMs });
    const answer = await client.metric(HBM);
    expect(server.requests).toEqual([{ metric_name: HBM, skip_node_aggregation: false }]);
    expect(answer.state === 'ok' && answer.points).toMatchObject([
      { ordinal: 0, value: 17_179_869_184, labels: {} },
      { ordinal: 1, value: 0.5 },
      { ordinal: 2, value: 3, labels: { core_type: '7' } },
      { ordinal: null, value: 1 }
    ]);
  });

  it('can query a single process only', async () => {
    using client = new MetricClient({ port: server.port, answerMs, alone: true });
    await client.metric(HBM);
    expect(server.requests).toEqual([{ metric_name: HBM, skip_node_aggregation: true }]);
  });

  it('distinguishes a metric that the runtime lacks from a runtime that fails', async () => {
    using client = new MetricClient({ port: server.port, answerMs });
    expect(await client.metric('no.such.metric')).toEqual({ state: 'unknown' });
    server.refusal = { code: status.INTERNAL, details: 'chip fell off' };
    expect(await client.metric(HBM)).toEqual({ state: 'failed', reason: 'chip fell off' });
  });

  it('does not wait for a runtime that is stuck', async () => {
    server.isStuck = true;
    using client = new MetricClient({ port: server.port, answerMs: 50 });
    expect(await client.metric(HBM)).toEqual({ state: 'failed', reason: 'it does not answer in time' });
  });

  it('detects that no process serves the port, and finds a server that starts later', async () => {
    const { port } = server;
    await server[Symbol.asyncDispose]();
    using client = new MetricClient({ port, answerMs });
    expect(await client.metric(HBM)).toEqual({ state: 'absent' });
    server = await MetricServer.start(port);
    server.metrics.set(HBM, []);
    await expect
      .poll(() => client.metric(HBM), { timeout: 30_000, interval: 100 })
      .toEqual({ state: 'ok', points: [] });
  });

  it('lists the metrics that the runtime has', async () => {
    server.metrics.set(HBM, []).set('megascale.error.detected.gauge', []);
    using client = new MetricClient({ port: server.port, answerMs });
    expect(await client.supported('^megascale')).toEqual(new Set(['megascale.error.detected.gauge']));
    expect((await client.supported())?.size).toBe(2);
  });
});

describe('the description of the service', () => {
  it('is shipped, at the path that both the sources and the built files expect', () => {
    expect(existsSync(PROTO_FILE)).toBe(true);
    const built = new URL('../../lib/devices/metric-service.js', import.meta.url);
    expect(new URL('../../proto/runtime-metrics.proto', built).pathname).toBe(PROTO_FILE);
    const { files } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
      files: string[];
    };
    expect(files).toContain('proto');
  });
});

describe('TPU_RUNTIME_METRICS_PORTS', () => {
  it.each([
    [undefined, [8431]],
    ['', [8431]],
    ['8431,8432, 8433', [8431, 8432, 8433]],
    ['9000,9000', [9000]],
    ['x,70000,0', [8431]]
  ])('%s means the ports %j', (given, ports) => {
    expect(metricPorts({ TPU_RUNTIME_METRICS_PORTS: given })).toEqual(ports);
  });
});
