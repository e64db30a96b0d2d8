import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Value } from '@sinclair/typebox/value';
import { DevicesHistory, DevicesPage, type EventsFrame, MachineEvent } from '@tpulab/protocol';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { freePort } from '../testing/free-port.js';
import { MetricServer } from './testing/metric-server.js';
import { GENERATIONS, serve, usedBytes } from './testing/traces.js';
import { type Answer, TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const WAIT = { timeout: 60_000, interval: 20 };
const V5P = GENERATIONS.find(({ name }) => name === 'v5p')!;

let metrics: MetricServer;
let bridge: TemporaryGateway;
const env = () => ({
  ...process.env,
  TPU_RUNTIME_METRICS_PORTS: String(metrics.port),
  TPU_SKIP_MDS_QUERY: '1'
});

beforeAll(async () => {
  metrics = await MetricServer.start(await freePort());
  serve(metrics, V5P);
  bridge = await TemporaryGateway.start({ env: env() });
  await bridge.gateway.ready;
});

afterAll(async () => {
  await bridge[Symbol.asyncDispose]();
  await metrics[Symbol.asyncDispose]();
});

/** The server has one second to answer a sample, and runs in this process: if the process pauses, a later sample counts. */
function served(from: TemporaryGateway): Promise<Answer> {
  return vi.waitFor(async () => {
    const answer = await from.rest('GET', '/bridge/v1/devices');
    expect((answer.body as DevicesPage).sample.metrics.state).toBe('serving');
    return answer;
  }, WAIT);
}

class Page implements Disposable {
  readonly samples: MachineEvent[] = [];
  readonly socket = new WebSocket(`${bridge.url.replace('http', 'ws')}bridge/v1/events?token=${TOKEN}`);

  constructor(topics: string[]) {
    this.socket.on('open', () => this.socket.send(JSON.stringify({ op: 'subscribe', topics })));
    this.socket.on('message', data => {
      const frame = JSON.parse((data as Buffer).toString()) as EventsFrame;
      if (frame.op !== 'events') return;
      for (const event of frame.events) if ('machine' in event) this.samples.push(event);
    });
  }

  [Symbol.dispose](): void {
    this.socket.terminate();
  }
}

describe('/bridge/v1/devices', () => {
  it("returns the runtime's device figures, in the schema of the protocol", async () => {
    const { status, body } = await served(bridge);
    expect([status, [...Value.Errors(DevicesPage, body)]]).toEqual([200, []]);
    const { sample } = body as DevicesPage;
    expect(sample.metrics.state).toBe('serving');
    expect(sample.devices.map(({ hbmUsedBytes }) => hbmUsedBytes)).toEqual(
      [0, 1, 2, 3].map(index => usedBytes(V5P, index))
    );
    expect(sample.host.memoryTotalBytes).toBeGreaterThan(0);
  });

  it('needs a token', async () => {
    for (const target of ['/bridge/v1/devices', '/bridge/v1/devices/history'])
      expect((await bridge.rest('GET', target, { token: null })).status).toBe(403);
  });

  it('has a history that a new gateway on the same folder continues', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    const first = await TemporaryGateway.start({ stateDir: folder, env: env() });
    await first.gateway.ready;
    await served(first);
    await first.gateway[Symbol.asyncDispose]();
    await using second = await TemporaryGateway.start({ stateDir: folder, env: env() });
    await second.gateway.ready;
    const { status, body } = await second.rest('GET', '/bridge/v1/devices/history?tier=60&from=0');
    expect([status, [...Value.Errors(DevicesHistory, body)]]).toEqual([200, []]);
    const history = body as DevicesHistory;
    // The first sample may be without an answer, and may even belong to the previous minute.
    expect(history.series['device.3.hbmUsedBytes']?.max).toContain(usedBytes(V5P, 3));
    expect(history.times.length).toBe(history.series['device.3.hbmUsedBytes']?.min.length);
  });

  it.each(['tier=2', 'tier=x', 'from=-1', 'from=x'])('refuses a history of %s', async query => {
    const answer = await bridge.rest('GET', `/bridge/v1/devices/history?${query}`);
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });

  it('sends samples to pages that show devices, and to no others', async () => {
    using page = new Page(['devices']);
    using other = new Page(['kernels']);
    await vi.waitUntil(() => page.samples.length >= 3, WAIT);
    expect([...Value.Errors(MachineEvent, page.samples[0])]).toEqual([]);
    const seqs = page.samples.map(({ machineSeq }) => machineSeq);
    expect(seqs).toEqual(seqs.map((_, index) => seqs[0]! + index));
    serve(metrics, V5P, { step: 5 });
    await vi.waitUntil(
      () => page.samples.at(-1)?.machine.devices[0]?.hbmUsedBytes === usedBytes(V5P, 0, 5),
      WAIT
    );
    expect(other.samples).toEqual([]);
    serve(metrics, V5P);
  });
});

describe('a chip table', () => {
  it('with a mistake prevents the start of the gateway, with an error that names the file', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    const chipTable = path.join(folder, 'chips.json');
    await writeFile(chipTable, '{"chips": [{"name": "v6e", "hbmGiB": -1}]}');
    await expect(TemporaryGateway.start({ stateDir: folder, chipTable })).rejects.toMatchObject({
      code: 'chip_table_unusable',
      message: expect.stringContaining('v6e.hbmGiB') as string
    });
    await rm(folder, { recursive: true });
  });

  it('reaches the kernels: their environment has the peak rates of its chips', async () => {
    const stateDir = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    const chipTable = path.join(stateDir, 'chips.json');
    await writeFile(chipTable, '{"chips": [{"name": "v6e", "tflops": {"bf16": 900}}]}');
    await using reported = await TemporaryGateway.start({ stateDir, chipTable });
    await reported.gateway.ready;
    using client = await reported.connect(await reported.startKernel());
    const request = client.execute("import os; print(os.environ['TPULAB_PEAK_FLOPS'])");
    await client.done(request);
    expect(JSON.parse(client.printed(request))).toEqual({ 'TPU v6 lite': 900e12, 'TPU v6e': 900e12 });
  });
});
