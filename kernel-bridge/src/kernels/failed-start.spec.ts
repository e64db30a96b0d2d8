/** State after a failed start: no process runs unlisted, and no earlier data is lost. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { JournalReader } from '../journal/index.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import { type KeeperAccess, localKeepers } from '../keeper-client/access.js';
import { canSignal } from '@tpulab/platform/process-identity.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let bridge: TemporaryGateway;
/** Replaces the subscription of a gateway to its kernel. */
let subscribe: (() => Promise<never>) | null;

const keepers: KeeperAccess = {
  ...localKeepers(),
  start: async (kernelDir, launch, events) => {
    const handle = await localKeepers().start(kernelDir, launch, events);
    return subscribe === null ? handle : Object.assign(handle, { subscribe });
  }
};

beforeEach(async () => {
  subscribe = null;
  bridge = await TemporaryGateway.start({ keepers });
  await bridge.gateway.ready;
});

afterEach(async () => bridge[Symbol.asyncDispose]());

const folderOf = (id: string): string => path.join(bridge.folder, 'kernels', id);

async function pids(id: string): Promise<{ keeper: number; kernel: number }> {
  const record = JSON.parse(await readFile(path.join(folderOf(id), 'keeper.json'), 'utf8')) as {
    pid: number;
    kernelPid: number;
  };
  return { keeper: record.pid, kernel: record.kernelPid };
}

/** A kernel that was lost with its machine: no gateway has recorded its end. The next gateway does not list it. */
async function lostKernel(): Promise<{ id: string; lastSeq: number }> {
  const id = await bridge.startKernel();
  const client = await bridge.connect(id);
  await client.done(client.execute('print("precious")'));
  client[Symbol.dispose]();
  const { keeper, kernel } = await pids(id);
  const { folder } = bridge;
  await bridge.gateway[Symbol.asyncDispose]();
  process.kill(keeper, 'SIGSTOP');
  process.kill(kernel, 'SIGKILL');
  process.kill(keeper, 'SIGKILL');
  await vi.waitUntil(() => !canSignal(keeper) && !canSignal(kernel), { timeout: 60_000 });
  bridge = await TemporaryGateway.start({ stateDir: folder, keepers });
  await bridge.gateway.ready;
  await vi.waitUntil(() => bridge.gateway.registry.find(id) === undefined, { timeout: 60_000 });
  return { id, lastSeq: await new JournalReader(path.join(folderOf(id), 'journal')).lastSeq() };
}

describe('a start that fails', () => {
  it('leaves the journal of a kernel of the same id that was lost with its machine', async () => {
    const { id, lastSeq } = await lostKernel();
    expect(lastSeq).toBeGreaterThan(3);
    subscribe = () => Promise.reject(new KeeperError('keeper_timeout', 'The disk hangs.'));
    const answer = await bridge.rest('POST', '/api/kernels', { body: { name: 'python3', kernel_id: id } });
    expect(answer.status).toBe(500);
    const journal = new JournalReader(path.join(folderOf(id), 'journal'));
    expect(await journal.lastSeq()).toBeGreaterThanOrEqual(lastSeq);
    const retained: string[] = [];
    for await (const record of journal.read(1)) retained.push(record.payload.toString('latin1'));
    expect(retained.join('')).toContain('precious');

    subscribe = null;
    expect(await bridge.startKernel({ name: 'python3', kernel_id: id })).toBe(id);
  });

  it('ends the keeper and the kernel that it has started, which would use the chips unlisted', async () => {
    const begun: { keeper: number; kernel: number }[] = [];
    const id = '11111111-2222-4333-8444-555555555555';
    subscribe = async () => {
      begun.push(await pids(id));
      throw new KeeperError('keeper_timeout', 'The disk hangs.');
    };
    const answer = await bridge.rest('POST', '/api/kernels', { body: { name: 'python3', kernel_id: id } });
    expect(answer).toMatchObject({
      status: 500,
      body: { message: expect.stringContaining('The disk hangs') as string }
    });
    expect(begun).toHaveLength(1);
    await vi.waitUntil(() => !canSignal(begun[0]!.keeper) && !canSignal(begun[0]!.kernel), {
      timeout: 60_000
    });
    expect(bridge.gateway.registry.find(id)).toBeUndefined();
  });

  it('takes over a kernel of the same id that still runs, without touching its data', async () => {
    const id = await bridge.startKernel();
    const before = await pids(id);
    // The state for a gateway that has not found the kernel, for example because the keeper hung during the search.
    const { folder } = bridge;
    await bridge.gateway[Symbol.asyncDispose]();
    let attach: KeeperAccess['attach'] = () => Promise.resolve(null);
    bridge = await TemporaryGateway.start({
      stateDir: folder,
      keepers: { ...keepers, attach: (...args) => attach(...args) }
    });
    await bridge.gateway.ready;
    expect(bridge.gateway.registry.find(id)).toBeUndefined();
    attach = keepers.attach;

    const answer = await bridge.rest('POST', '/api/kernels', { body: { name: 'python3', kernel_id: id } });
    expect(answer.status).toBe(409);
    expect(await pids(id)).toEqual(before);
    expect(bridge.gateway.registry.find(id)?.snapshot.kernelPid).toBe(before.kernel);
    const client = await bridge.connect(id);
    await client.done(client.execute('1'));
    client[Symbol.dispose]();
  });
});
