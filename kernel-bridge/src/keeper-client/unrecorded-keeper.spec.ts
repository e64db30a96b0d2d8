/** A gateway that is killed while it starts a kernel leaves a keeper without `keeper.json`. The next gateway finds it. */
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { attachKeeper } from './attach.js';
import { kernelPaths, readLaunch } from '../keeper-protocol/keeper-file.js';
import { writeForThisBoot } from '@tpulab/platform/write-atomically.js';
import { launchKeeper } from './launch.js';
import { runFolder } from '../kernels/kernel-registry.js';
import { takeProcessLock } from '@tpulab/platform/process-lock.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let bridge: TemporaryGateway;
let keeper: ChildProcess | null = null;

beforeEach(async () => {
  bridge = await TemporaryGateway.start();
  await bridge.gateway.ready;
});

afterEach(async () => {
  await bridge[Symbol.asyncDispose]();
  keeper?.kill('SIGKILL');
});

it('is found by the next gateway, and runs cells', async () => {
  const { folder } = bridge;
  const known = await bridge.startKernel({ name: 'lossless' });
  const id = randomUUID();
  const directory = path.join(folder, 'kernels', id);
  await mkdir(directory, { mode: 0o700 });
  const launch = await readLaunch(path.join(folder, 'kernels', known));
  await bridge.gateway[Symbol.asyncDispose]();
  await writeForThisBoot(kernelPaths(directory).launch, {
    ...launch,
    kernelId: id,
    runDir: runFolder(folder, id)
  });
  const started = launchKeeper('start', directory).then(child => (keeper = child));
  await vi.waitUntil(() => existsSync(kernelPaths(directory).keeperLog), { timeout: 60_000, interval: 1 });

  bridge = await TemporaryGateway.start({ stateDir: folder });
  await bridge.gateway.ready;
  await started;
  const stateOf = async (): Promise<unknown> =>
    ((await bridge.rest('GET', `/api/kernels/${id}`)).body as { execution_state?: string }).execution_state;
  await vi.waitFor(async () => expect(await stateOf()).toBe('idle'), 60_000);
  const client = await bridge.connect(id, { sessionId: 'front' });
  const request = client.execute("print('found')");
  await client.done(request);
  expect(client.printed(request)).toBe('found\n');
  client[Symbol.dispose]();
  const ended = once(keeper!, 'exit');
  expect((await bridge.rest('DELETE', `/api/kernels/${id}`)).status).toBe(204);
  await ended;
});

it('is retried while a process holds the lock of the folder, and given up when none does', async () => {
  const directory = path.join(bridge.folder, 'kernels', randomUUID());
  await mkdir(directory, { mode: 0o700 });
  const lock = await takeProcessLock(kernelPaths(directory).lock);
  const nothing = {} as Parameters<typeof attachKeeper>[1];
  await expect(attachKeeper(directory, nothing)).rejects.toMatchObject({
    code: 'keeper_timeout',
    message: expect.stringContaining(`process ${process.pid}`) as string
  });
  await lock[Symbol.asyncDispose]();
  await expect(attachKeeper(directory, nothing)).rejects.toMatchObject({ code: 'keeper_gone' });
});
