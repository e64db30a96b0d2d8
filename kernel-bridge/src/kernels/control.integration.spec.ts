import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { ControlCommand, ControlMessage } from '@tpulab/protocol';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { EventsPage } from '../telemetry/testing/events-page.js';
import { type Answer, TemporaryGateway } from '../testing/temporary-gateway.js';

const ENVIRONMENTS = fileURLToPath(new URL('../../../.tpulab/envs', import.meta.url));
const isInstalled = existsSync(`${ENVIRONMENTS}/jax/bin/python`);
if (!isInstalled) {
  process.stderr.write(
    `Specs of control are skipped: ${ENVIRONMENTS}/jax does not exist; "npm start" makes it.\n`
  );
}
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

/** Trains until it is stopped. Written in plain Python, so that it starts immediately. */
const TRAIN = `
import time, tpulab
run = tpulab.run("steered", {"batch": 8}, log=False,
                 hyperparameters={"rate": tpulab.hyper(0.5, min=0.0, max=1.0)})
run.on_checkpoint(lambda step: f"kept at {step}")
seen = []
for number in run.steps(range(1_000_000)):
    time.sleep(0.002)
    if run.hyper["rate"] not in seen:
        seen.append(run.hyper["rate"])
print(seen, run.state)
`;

let bridge: TemporaryGateway;

beforeAll(async () => {
  if (!isInstalled) return;
  bridge = await TemporaryGateway.start({ envDir: ENVIRONMENTS });
  await bridge.gateway.ready;
});

afterAll(async () => {
  if (isInstalled) await bridge[Symbol.asyncDispose]();
});

function post(kernel: string, command: Partial<ControlCommand>): Promise<Answer> {
  return bridge.rest('POST', `/bridge/v1/kernels/${kernel}/control`, {
    body: { id: randomUUID(), ...command }
  });
}

async function steer(kernel: string, command: Partial<ControlCommand>): Promise<ControlMessage> {
  const { status, body } = await post(kernel, command);
  expect({ status, body }).toMatchObject({ status: 200 });
  return body as ControlMessage;
}

describe.skipIf(!isInstalled)('POST /bridge/v1/kernels/:id/control', () => {
  it('steers a run while its synchronous cell is busy, and reports the result of each command', async () => {
    const kernel = await bridge.startKernel({ name: 'tpulab-jax' });
    using page = new EventsPage(bridge);
    await page.subscribe({ op: 'subscribe', topics: ['runs', 'steps'] });
    using client = await bridge.connect(kernel);
    const cell = client.execute(TRAIN);
    const states = () => page.runs(kernel).map(message => message.control?.state);
    await page.until(() => states().includes('running'));
    expect(page.runs(kernel).at(-1)).toMatchObject({
      name: 'steered',
      control: {
        actions: ['pause', 'resume', 'stop', 'set', 'checkpoint'],
        config: { batch: 8 },
        hyperparameters: [{ name: 'rate', value: 0.5, min: 0, max: 1, recompiles: false }]
      }
    });
    const applied = (id: string): ControlMessage | undefined =>
      page.control(kernel, id).find(({ phase }) => phase === 'applied');

    const set = await steer(kernel, { action: 'set', name: 'rate', value: 0.25 });
    expect(set).toMatchObject({ phase: 'accepted', value: 0.25 });
    const done = await page.until(() => applied(set.id));
    expect(done).toMatchObject({ before: 0.5, value: 0.25 });
    expect(done.step).toBeGreaterThan(0);

    const pause = await steer(kernel, { action: 'pause' });
    await page.until(() => states().at(-1) === 'paused');
    // Commands are also applied during a pause.
    const checkpoint = await steer(kernel, { action: 'checkpoint' });
    const retained = await page.until(() => applied(checkpoint.id));
    expect(retained).toMatchObject({ reason: `kept at ${retained.step}`, step: applied(pause.id)?.step });
    await steer(kernel, { action: 'resume' });
    await page.until(() => states().at(-1) === 'running');

    await steer(kernel, { action: 'stop' });
    await client.done(cell);
    expect(client.printed(cell)).toBe('[0.5, 0.25] stopped\n');
    await page.until(() => page.runs(kernel).at(-1)?.state === 'finished');
    expect(states().at(-1)).toBe('stopped');
    const bands = page.telemetry(kernel).flatMap(data => (data.type === 'band' ? [data.kind] : []));
    expect(bands).toEqual(['checkpoint', 'pause']);
  });

  it('applies a command once, however often it is sent, and refuses invalid ones with a reason', async () => {
    const kernel = await bridge.startKernel({ name: 'tpulab-jax' });
    using page = new EventsPage(bridge);
    await page.subscribe({ op: 'subscribe', topics: ['runs'] });
    const early = await post(kernel, { action: 'pause' });
    expect(early).toMatchObject({ status: 409, body: { code: 'control_unavailable' } });
    using client = await bridge.connect(kernel);
    const cell = client.execute(TRAIN);
    await page.until(() => page.runs(kernel).some(({ control }) => control?.state === 'running'));
    const id = randomUUID();
    await steer(kernel, { id, action: 'checkpoint' });
    await page.until(() => page.control(kernel, id).some(({ phase }) => phase === 'applied'));
    expect(await steer(kernel, { id, action: 'checkpoint' })).toMatchObject({ phase: 'applied' });
    const refusals = await Promise.all([
      steer(kernel, { action: 'set', name: 'rate', value: 7 }),
      steer(kernel, { action: 'set', name: 'other', value: 1 }),
      steer(kernel, { action: 'evaluate' }),
      steer(kernel, { action: 'resume' }),
      steer(kernel, { action: 'stop', run: 'none' })
    ]);
    expect(refusals.map(({ phase }) => phase)).toEqual(Array.from({ length: 5 }, () => 'refused'));
    expect(refusals.map(({ reason }) => reason)).toEqual([
      'rate must be between 0 and 1, not 7.',
      "This run has no hyperparameter 'other'; it has: rate.",
      'This run has no function for it: set one with run.on_evaluate(function).',
      'The run is not paused.',
      'This kernel has no run none that accepts commands; it may be over.'
    ]);
    const bands = page.telemetry(kernel).filter(data => data.type === 'control' && data.phase === 'applied');
    // The repeated command is answered with the same words, and was applied once.
    expect(new Set(bands.map(data => data.time)).size).toBe(1);
    await steer(kernel, { action: 'stop' });
    await client.done(cell);
  });

  it('ends a pause with an interrupt, and lets commands expire with a kernel that is restarted', async () => {
    const kernel = await bridge.startKernel({ name: 'tpulab-jax' });
    using page = new EventsPage(bridge);
    await page.subscribe({ op: 'subscribe', topics: ['runs'] });
    using client = await bridge.connect(kernel);
    const first = client.execute(TRAIN);
    const states = () => page.runs(kernel).map(message => message.control?.state);
    await page.until(() => states().includes('running'));
    await steer(kernel, { action: 'pause' });
    await page.until(() => states().at(-1) === 'paused');
    await bridge.rest('POST', `/api/kernels/${kernel}/interrupt`);
    await client.done(first);
    await page.until(() => states().at(-1) === 'failed');

    client.execute('for number in run.steps(range(5)):\n    time.sleep(600)');
    await page.until(() => states().at(-1) === 'running');
    const waiting = await steer(kernel, { action: 'checkpoint' });
    expect(waiting.phase).toBe('accepted');
    await bridge.rest('POST', `/api/kernels/${kernel}/restart`);
    await page.until(() => page.control(kernel, waiting.id).some(({ phase }) => phase === 'expired'));
  });

  it.each([{ action: 'dance' }, { action: 'set', value: {} }, { id: '', action: 'pause' }, { more: 1 }])(
    'refuses the body %j',
    async body => {
      const kernel = bridge.gateway.registry.list()[0]?.id ?? 'none';
      expect(await post(kernel, body as never)).toMatchObject({ status: 400 });
    }
  );

  it('refuses a kernel that does not exist', async () => {
    expect(await post(randomUUID(), { action: 'pause' })).toMatchObject({ status: 404 });
  });
});
