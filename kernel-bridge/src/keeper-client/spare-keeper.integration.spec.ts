import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { processStart } from '@tpulab/platform/process-identity.js';
import { kernelPaths, readKeeperRecord } from '../keeper-protocol/keeper-file.js';
import { launchSpare } from './launch.js';
import { SpareKeeper } from './spare-keeper.js';
import { GatewayView, KeeperFixture } from '../keeper/testing/keeper-fixture.js';

const PATIENCE = { timeout: 60_000, interval: 20 };

describe('a spare keeper', () => {
  let folder: string;
  let view: GatewayView;
  let keeper: KeeperFixture;
  let spare: SpareKeeper;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ts-'));
    view = new GatewayView();
    keeper = await KeeperFixture.create();
  });

  afterEach(async () => {
    await spare[Symbol.asyncDispose]();
    await keeper[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  /** Waits for a spare keeper, and returns its pid. */
  async function isReady(quietMs = 0): Promise<number> {
    spare = new SpareKeeper({ folder, log: pino({ level: 'silent' }), quietMs, entry: keeper.entry });
    spare.keepReady();
    return vi.waitUntil(() => spare.pid, PATIENCE);
  }

  it('becomes the keeper of the next kernel, and another one takes its place', async () => {
    const pid = await isReady();
    const client = await keeper.start(view, spare);
    expect(client.snapshot.keeperPid).toBe(pid);
    expect(await readKeeperRecord(keeper.kernelDir)).toMatchObject({ pid, kernelId: keeper.launch.kernelId });
    await client.subscribe();
    await view.untilState('idle');
    await view.untilDone(keeper.execute(client, 'print 3'));
    expect(view.text).toBe('line 0\nline 1\nline 2\n');
    expect(await keeper.logs()).toContain('the kernel process has started');

    const next = await vi.waitUntil(() => spare.pid, PATIENCE);
    expect(next).not.toBe(pid);
    expect(await readFile(join(folder, 'spare-keeper.log'), 'utf8')).toBe('');
  });

  it('ends with its owner, and leaves nothing', async () => {
    const pid = await isReady();
    await spare[Symbol.asyncDispose]();
    expect(await processStart(pid)).toBeNull();
    expect(existsSync(join(folder, 'spare-keeper.log'))).toBe(false);
    spare.keepReady();
    expect(spare.take(keeper.kernelDir)).toBeNull();
  });

  it('ends automatically when its owner was killed', async () => {
    await isReady();
    const child = await launchSpare(folder, join(folder, 'other.log'), { entry: keeper.entry });
    const ended = once(child, 'exit');
    // The kernel closes the descriptors of an ended process in the same way.
    child.stdio[3]?.destroy();
    expect(await ended).toEqual([0, null]);
  });

  it('outlives its owner once it has a kernel', async () => {
    const pid = await isReady();
    const client = await keeper.start(view, spare);
    await client.subscribe();
    await view.untilState('idle');
    await spare[Symbol.asyncDispose]();
    await client[Symbol.asyncDispose]();
    const again = new GatewayView();
    const second = await keeper.attach(again);
    expect(second.snapshot.keeperPid).toBe(pid);
    await second.subscribe();
    await again.untilDone(keeper.execute(second, 'print 1'));
    expect(again.text).toBe('line 0\n');
  });

  it('reports why a kernel cannot be started, and ends', async () => {
    const pid = await isReady();
    await keeper[Symbol.asyncDispose]();
    keeper = await KeeperFixture.create({ argv: ['/nowhere/kernel'] });
    await expect(keeper.start(view, spare)).rejects.toMatchObject({ code: 'kernel_start_failed' });
    await vi.waitUntil(async () => (await processStart(pid)) === null, PATIENCE);
  });

  it('is optional: a kernel starts even after it was killed', async () => {
    const pid = await isReady();
    process.kill(pid, 'SIGKILL');
    await vi.waitUntil(() => spare.pid === null, PATIENCE);
    const client = await keeper.start(view, spare);
    expect(client.snapshot.keeperPid).not.toBe(pid);
  });

  it('stays unused for a kernel with an earlier keeper, whose log continues', async () => {
    const pid = await isReady();
    const { keeperLog } = kernelPaths(keeper.kernelDir);
    await mkdir(keeper.kernelDir, { recursive: true });
    await writeFile(keeperLog, 'what the keeper before said\n');
    const client = await keeper.start(view, spare);
    expect(client.snapshot.keeperPid).not.toBe(pid);
    expect(await readFile(keeperLog, 'utf8')).toMatch(/^what the keeper before said\n.*the keeper starts/);
    expect(spare.pid).toBe(pid);
  });
});
