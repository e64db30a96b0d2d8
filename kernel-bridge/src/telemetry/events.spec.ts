import { describe, expect, it, vi } from 'vitest';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';
import { EventsPage } from './testing/events-page.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();

/** Code that reports to the keeper like an agent. */
const REPORT = `
import json, os, socket
with socket.socket(socket.AF_UNIX) as s:
    s.connect(os.environ['TPULAB_AGENT_SOCKET'])
    for n in range(COUNT):
        s.sendall((json.dumps({'type': 'run', 'time': 1, 'run': str(n), 'name': 'r', 'state': 'running',
                               'totalSteps': None, 'location': None}) + '\\n').encode())
`;

/** Five runs of a day, as far as a gateway stores them: about 1.8 MB. */
const LONG_RUNS = `
import json, os, socket
step = {'startTime': 1.79e12 + 0.123, 'wallMs': 50.123456, 'inputMs': 1.234567, 'hostMs': 3.456789, 'compileMs': 0,
        'deviceMs': 45.678901, 'gapMs': 0.123456, 'deviceKnown': True, 'metrics': {'loss': 0.12345678901234567}}
with socket.socket(socket.AF_UNIX) as s:
    s.connect(os.environ['TPULAB_AGENT_SOCKET'])
    for run in 'abcde':
        messages = [{'type': 'run', 'time': 1, 'name': 'r', 'state': 'running', 'totalSteps': None, 'location': None}]
        messages += [{'type': 'steps', 'time': 1, 'dropped': 0,
                      'steps': [{**step, 'index': 5 * n + at} for at in range(5)]} for n in range(300)]
        s.sendall(''.join(json.dumps({**one, 'run': run}) + '\\n' for one in messages).encode())
`;

describe('/bridge/v1/events', () => {
  it('sends a new page at most 300 kB for ten runs of a day in two kernels, with the newest steps of both', async () => {
    await using bridge = await TemporaryGateway.start();
    await bridge.gateway.ready;
    const kernels = [await bridge.startKernel(), await bridge.startKernel()];
    const newest = (of: EventsPage, kernel: string): string | undefined => {
      const last = of.telemetry(kernel).at(-1);
      return last?.type === 'steps' ? `${last.run} ${last.steps.at(-1)?.index}` : undefined;
    };
    const areThere = (of: EventsPage) => () => kernels.every(kernel => newest(of, kernel) === 'e 1499');
    const topics = ['kernels', 'clients', 'devices', 'runs', 'steps', 'compile', 'remotes'];
    using page = new EventsPage(bridge);
    await page.subscribe({ op: 'subscribe', topics });
    for (const kernel of kernels) {
      using client = await bridge.connect(kernel);
      await client.run(LONG_RUNS);
    }
    await page.until(areThere(page));
    using late = new EventsPage(bridge);
    let bytes = 0;
    late.socket.on('message', data => (bytes += (data as Buffer).length));
    await late.subscribe({ op: 'subscribe', topics });
    await late.until(areThere(late));
    expect(bytes).toBeLessThan(300_000);
    expect(bytes).toBeGreaterThan(100_000);
    for (const kernel of kernels) {
      expect(late.runs(kernel).map(({ run }) => run)).toEqual(['a', 'b', 'c', 'd', 'e']);
    }
  });

  it('reports every kernel at subscription, and each change until it is removed', async () => {
    const id = await bridge.startKernel();
    using page = new EventsPage(bridge);
    await page.subscribe({ op: 'subscribe', topics: ['kernels'] });
    const states = () =>
      page.events.flatMap(event => (event.topic === 'kernels' && event.kernelId === id ? [event] : []));
    await page.until(() => states().length > 0);
    expect(page.frames[0]).toMatchObject({
      op: 'subscribed',
      topics: ['kernels'],
      gatewayId: bridge.gateway.gatewayId
    });
    using client = await bridge.connect(id);
    // A cell that ends immediately may be over before its state is reported; this one waits.
    const request = client.execute('input()', { allow_stdin: true });
    await page.until(() => states().at(-1)?.executionState === 'busy' && states().at(-1)?.connections === 1);
    // The kernel discards earlier input when it asks, and it is busy a little earlier.
    await client.first(({ header }) => header.msg_type === 'input_request');
    client.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await client.done(request);
    await page.until(() => states().at(-1)?.executionState === 'idle');
    await bridge.rest('DELETE', `/api/kernels/${id}`);
    await page.until(() => states().some(({ removed }) => removed));
    expect(states().at(-1)).toMatchObject({ name: 'python3', removed: true });
  });

  it('reports which clients are attached, and when they leave', async () => {
    const id = await bridge.startKernel();
    using page = new EventsPage(bridge);
    await page.subscribe({ op: 'subscribe', topics: ['clients'] });
    const client = await bridge.connect(id, { sessionId: 'me' });
    const states = () => page.events.flatMap(event => (event.topic === 'clients' ? [event.state] : []));
    await page.until(() => states().at(-1) === 'live');
    using late = new EventsPage(bridge);
    await late.subscribe({ op: 'subscribe', topics: ['clients'] });
    await late.until(() => late.events.length > 0);
    expect(late.events).toMatchObject([{ kernelId: id, sessionId: 'me', state: 'live', pending: 0 }]);
    await client.abort();
    await page.until(() => states().at(-1) === 'detached');
    await bridge.rest('DELETE', `/api/kernels/${id}`);
  });

  it('passes telemetry on in order, to a late page too, and again only unseen telemetry', async () => {
    const id = await bridge.startKernel();
    using page = new EventsPage(bridge);
    await page.subscribe({ op: 'subscribe', topics: ['runs'] });
    using client = await bridge.connect(id);
    await client.run(REPORT.replace('COUNT', '450'));
    const seqs = (of: EventsPage) =>
      of.events.flatMap(event => ('seq' in event && event.kernelId === id ? [event.seq] : []));
    await page.until(() => seqs(page).length >= 450);
    expect(seqs(page)).toEqual(Array.from({ length: 450 }, (_, n) => n + 1));
    expect(page.events[0]).toMatchObject({ topic: 'runs', kernelId: id, data: { type: 'run', run: '0' } });
    using late = new EventsPage(bridge);
    await late.subscribe({ op: 'subscribe', topics: ['runs', 'steps'] });
    await late.until(() => seqs(late).length >= 450);
    expect(seqs(late)).toEqual(seqs(page));
    using again = new EventsPage(bridge);
    await again.subscribe({ op: 'subscribe', topics: ['runs'], since: { [id]: 440 } });
    await again.until(() => seqs(again).length >= 10);
    expect(seqs(again)).toEqual([441, 442, 443, 444, 445, 446, 447, 448, 449, 450]);
    await bridge.rest('DELETE', `/api/kernels/${id}`);
  });

  it('sends the history again after the gateway was replaced, with the same numbers', async () => {
    const first = await TemporaryGateway.start();
    await first.gateway.ready;
    const id = await first.startKernel();
    using client = await first.connect(id);
    await client.run(REPORT.replace('COUNT', '3'));
    await first.gateway[Symbol.asyncDispose]();
    await using second = await TemporaryGateway.start({ stateDir: first.folder });
    await second.gateway.ready;
    using page = new EventsPage(second);
    await page.subscribe({ op: 'subscribe', topics: ['runs'] });
    await page.until(() => page.events.length >= 3);
    expect(page.events).toMatchObject([{ seq: 1 }, { seq: 2 }, { seq: 3 }]);
  });

  it.each(['{', '[]', '{"op":"subscribe"}', '{"op":"subscribe","topics":["all"]}', '{"op":"x","topics":[]}'])(
    'answers %s with an error, and continues',
    async request => {
      using page = new EventsPage(bridge);
      await page.subscribe(request);
      await page.until(() => page.frames.length > 0);
      expect(page.frames[0]).toMatchObject({ op: 'error', code: 'invalid_request' });
      await page.subscribe({ op: 'subscribe', topics: [] });
      await page.until(() => page.frames.length > 1);
      expect(page.frames[1]).toMatchObject({ op: 'subscribed', topics: [] });
    }
  );
});
