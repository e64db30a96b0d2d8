import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DeviceReadings, SLOW_MS, UNKNOWN_MS } from './device-readings.js';
import { freePort } from '../testing/free-port.js';
import { MetricServer } from './testing/metric-server.js';
import {
  dutyPercent,
  type Generation,
  GENERATIONS,
  type OrdinalStyle,
  serve,
  usedBytes
} from './testing/traces.js';

const BANDWIDTH = 'tpu.runtime.hbm.utilization.percent';
const TOTAL = 'tpu.runtime.hbm.memory.total.bytes';
const STYLES: OrdinalStyle[] = ['number', 'text', 'list'];
/** The server runs in this process; if the process pauses, both sides pause. */
const answerMs = 30_000;
const generationOf = (name: string): Generation => GENERATIONS.find(one => one.name === name)!;

let server: MetricServer;

beforeEach(async () => {
  server = await MetricServer.start(await freePort());
});

afterEach(async () => server[Symbol.asyncDispose]());

describe('readings of devices', () => {
  it.each(
    GENERATIONS.flatMap(generation => STYLES.map(style => ({ name: generation.name, style, generation })))
  )('of $name with ordinals as $style assign the metrics to their devices', async ({ generation, style }) => {
    serve(server, generation, { style });
    using readings = new DeviceReadings({ ports: [server.port], answerMs });
    const { devices, metrics } = await readings.read(generation.devicesPerChip);
    expect(metrics).toEqual({ state: 'serving', detail: null });
    expect(devices).toHaveLength(generation.chips * generation.devicesPerChip);
    for (const [index, device] of devices.entries()) {
      const chip = Math.floor(index / generation.devicesPerChip);
      expect(device).toEqual({
        ordinal: index,
        chip,
        hbmUsedBytes: usedBytes(generation, index),
        hbmTotalBytes: generation.hbmBytesPerDevice,
        dutyCyclePercent: dutyPercent(generation.dutyPer === 'chip' ? chip : index),
        hbmBandwidthPercent: generation.hasBandwidth ? 10 + index : null,
        idleS: index / 2,
        hloQueueSize: index % 3
      });
    }
  });

  it('of an unknown chip count each device as one chip', async () => {
    serve(server, generationOf('v6e'), { chips: 2 });
    using readings = new DeviceReadings({ ports: [server.port], answerMs });
    const { devices } = await readings.read(null);
    expect(devices.map(({ ordinal, chip }) => [ordinal, chip])).toEqual([
      [0, 0],
      [1, 1]
    ]);
  });

  it.each([true, false])(
    'of several processes are one table, numbered by the host (%s) or each from 0',
    async byHost => {
      await using second = await MetricServer.start(await freePort());
      const generation = generationOf('7x');
      serve(server, generation, { chips: 1 });
      serve(second, generation, { chips: 1, firstChip: byHost ? 1 : 0 });
      using readings = new DeviceReadings({ ports: [server.port, second.port], answerMs });
      const { devices } = await readings.read(2);
      expect(devices.map(({ ordinal, chip }) => [ordinal, chip])).toEqual([
        [0, 0],
        [1, 0],
        [2, 1],
        [3, 1]
      ]);
      expect(server.requests.every(({ skip_node_aggregation }) => skip_node_aggregation)).toBe(true);
    }
  );

  it('report one stuck process of several, and contain the metrics of the others', async () => {
    await using second = await MetricServer.start(await freePort());
    serve(server, generationOf('v5p'), { chips: 1 });
    second.isStuck = true;
    using readings = new DeviceReadings({ ports: [server.port, second.port], answerMs: 5_000 });
    const { devices, metrics } = await readings.read(1);
    expect(devices).toHaveLength(1);
    expect(metrics).toEqual({
      state: 'serving',
      detail: `port ${second.port}: it does not answer in time`
    });
  });

  it('rarely request slowly changing metrics, and metrics unknown to the runtime', async () => {
    let now = 0;
    serve(server, generationOf('v2'));
    using readings = new DeviceReadings({ ports: [server.port], answerMs, now: () => now });
    const requested = (metric: string) =>
      server.requests.filter(({ metric_name }) => metric_name === metric).length;
    await readings.read(2);
    await readings.read(2);
    expect([requested(TOTAL), requested(BANDWIDTH)]).toEqual([1, 1]);
    now = SLOW_MS + 1;
    await readings.read(2);
    expect([requested(TOTAL), requested(BANDWIDTH)]).toEqual([2, 1]);
    now = UNKNOWN_MS + 1;
    await readings.read(2);
    expect([requested(TOTAL), requested(BANDWIDTH)]).toEqual([3, 2]);
  });

  it('are empty when no process serves metrics, and resume with the next process', async () => {
    const { port } = server;
    serve(server, generationOf('v3'));
    using readings = new DeviceReadings({ ports: [port], answerMs });
    await readings.read(2);
    await server[Symbol.asyncDispose]();
    await expect
      .poll(async () => (await readings.read(2)).metrics.state, { timeout: 30_000, interval: 100 })
      .toBe('idle');
    server = await MetricServer.start(port);
    serve(server, generationOf('v4'));
    await expect
      .poll(async () => (await readings.read(1)).devices[0]?.hbmBandwidthPercent, {
        timeout: 30_000,
        interval: 100
      })
      .toBe(10);
  });

  it('report why a serving process returns no metrics', async () => {
    server.refusal = { code: status.PERMISSION_DENIED, details: 'not yours' };
    using readings = new DeviceReadings({ ports: [server.port], answerMs });
    expect(await readings.read(1)).toEqual({
      devices: [],
      metrics: { state: 'failing', detail: `port ${server.port}: not yours` }
    });
  });
});
