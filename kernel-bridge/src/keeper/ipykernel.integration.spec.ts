import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { gapOf } from '../journal/record.js';
import type { LaunchDescription } from '../keeper-protocol/contract.js';
import { processStart } from '@tpulab/platform/process-identity.js';
import { GatewayView, KeeperFixture } from './testing/keeper-fixture.js';

const PYTHON = fileURLToPath(new URL('../../../.tpulab/envs/jax/bin/python', import.meta.url));
const isInstalled = existsSync(PYTHON);
if (!isInstalled) {
  process.stderr.write(`Specs with ipykernel are skipped: ${PYTHON} does not exist; "npm start" makes it.\n`);
}

const FLOOD = 20_000;

function python(root: { HOME: string }): Partial<LaunchDescription> {
  return {
    specName: 'tpulab-jax',
    displayName: 'JAX',
    argv: [PYTHON, '-m', 'tpulab.launcher', '-f', '{connection_file}'],
    env: { PATH: process.env['PATH'] ?? '', ...root },
    bestEffort: false,
    shutdownWaitMs: 10_000
  };
}

describe.skipIf(!isInstalled)('a keeper with ipykernel and our launcher', () => {
  let view: GatewayView;
  let keeper: KeeperFixture;

  beforeEach(async () => {
    view = new GatewayView();
    keeper = await KeeperFixture.create(python({ HOME: process.env['HOME'] ?? '/' }));
  });

  afterEach(async ({ task }) => {
    if (task.result?.state === 'fail') {
      process.stderr.write(await keeper.logs());
    }
    await keeper[Symbol.asyncDispose]();
  });

  it('[15] delivers 20,000 flushed lines in order and without loss', async () => {
    const client = await keeper.ready(view);
    const code = `import sys\nfor i in range(${FLOOD}):\n    sys.stdout.write(f"line {i}\\n")\n    sys.stdout.flush()`;
    const msgId = keeper.execute(client, code);
    expect((await view.untilDone(msgId)).content).toMatchObject({ status: 'ok' });
    expect(view.textOf(msgId)).toBe(Array.from({ length: FLOOD }, (_, index) => `line ${index}\n`).join(''));
    expect(view.records.map(({ seq }) => seq)).toEqual(
      view.records.map((_, index) => view.records[0]!.seq + index)
    );
  });

  it('[16] is ready without a message to clients, and caches the kernel_info of the kernel', async () => {
    const client = await keeper.ready(view);
    const msgId = keeper.execute(client, 'print(6 * 7)');
    await view.untilDone(msgId);
    expect(view.textOf(msgId)).toBe('42\n');
    expect(view.messages.map(({ type }) => type)).not.toContain('iopub_welcome');
    expect(view.messages.map(({ type }) => type)).not.toContain('kernel_info_reply');
    expect(JSON.parse((await client.status()).kernelInfo!)).toMatchObject({ implementation: 'ipython' });
  });

  it('gets telemetry of the agent, not over iopub', async () => {
    const client = await keeper.ready(view);
    await client.subscribeTelemetry(0);
    await view.until('the agent says hello', () => view.telemetryRecords.length > 0);
    expect(JSON.parse(view.telemetryRecords[0]!.json)).toMatchObject({
      type: 'hello',
      pid: client.snapshot.kernelPid
    });
  });

  it('[15] [17] [18] interrupts a cell, restarts after a crash, and answers input()', async () => {
    const client = await keeper.ready(view);
    const sleeping = keeper.execute(client, 'import time\nprint("asleep", flush=True)\ntime.sleep(600)');
    await view.until('it sleeps', () => view.text.includes('asleep'));
    await client.interrupt();
    expect((await view.untilDone(sleeping)).content).toMatchObject({
      status: 'error',
      ename: 'KeyboardInterrupt'
    });

    keeper.execute(client, 'import os, signal\nos.kill(os.getpid(), signal.SIGKILL)');
    await view.until('it restarts', () => view.states.some(({ reason }) => reason === 'killed by SIGKILL'));
    await view.untilState('idle');

    const asking = keeper.execute(client, 'print("hello", input("name? "))');
    await view.until('it asks', () => view.messages.some(({ type }) => type === 'input_request'));
    client.send(keeper.request('input_reply', { value: 'Ada' }, 'stdin').frame);
    expect((await view.untilDone(asking)).content).toMatchObject({ status: 'ok' });
    expect(view.text).toContain('hello Ada\n');
  });

  it('[17] ends a kernel that swallows SIGTERM in the middle of a cell that swallows interrupts', async () => {
    await keeper[Symbol.asyncDispose]();
    keeper = await KeeperFixture.create({
      ...python({ HOME: process.env['HOME'] ?? '/' }),
      shutdownWaitMs: 1_000
    });
    const client = await keeper.ready(view);
    const code = [
      'import signal, time',
      'signal.signal(signal.SIGTERM, signal.SIG_IGN)',
      'signal.signal(signal.SIGINT, signal.SIG_IGN)',
      'print("deaf", flush=True)',
      'while True: time.sleep(1)'
    ];
    keeper.execute(client, code.join('\n'));
    await view.until('it is deaf', () => view.text.includes('deaf'));
    const { kernelPid } = client.snapshot;
    await client.shutdown();
    expect(await processStart(kernelPid!)).toBeNull();
  });

  it('reports where a stock kernel dropped output, and does not stay busy', async () => {
    await keeper[Symbol.asyncDispose]();
    const { HOME = '/' } = process.env;
    keeper = await KeeperFixture.create({
      ...python({ HOME }),
      argv: [PYTHON, '-m', 'ipykernel_launcher', '-f', '{connection_file}']
    });
    const client = await keeper.ready(view);
    const { cwd } = keeper.launch;
    const code = `
import os, time
from IPython.display import display
open('begun', 'w').close()
while not os.path.exists('go'): time.sleep(0.01)
for n in range(${FLOOD}): display({'text/plain': f'{n} ' + 'x' * 1000}, raw=True)
open('done', 'w').close()`;
    const cell = keeper.execute(client, code);
    await vi.waitUntil(() => existsSync(path.join(cwd, 'begun')), 60_000);
    // The sockets and the publisher buffer far less than the flood.
    process.kill(client.snapshot.keeperPid, 'SIGSTOP');
    await writeFile(path.join(cwd, 'go'), '');
    await vi.waitUntil(() => existsSync(path.join(cwd, 'done')), 60_000);
    process.kill(client.snapshot.keeperPid, 'SIGCONT');
    expect((await view.untilDone(cell)).content).toMatchObject({ status: 'ok' });
    await view.untilState('idle');
    const gaps = view.records.map(gapOf).filter(gap => gap !== null);
    expect(gaps).toMatchObject([{ code: 'kernel_output_dropped', count: null }]);
    const next = keeper.execute(client, 'print(6 * 7)');
    await view.untilDone(next);
    expect(view.textOf(next)).toBe('42\n');
    expect(view.records.map(gapOf).filter(gap => gap !== null)).toHaveLength(1);
  });
});
