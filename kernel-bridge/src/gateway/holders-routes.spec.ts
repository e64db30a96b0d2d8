import { Value } from '@sinclair/typebox/value';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { type HoldersPage, HoldersPage as HoldersSchema } from '@tpulab/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FakeMachine } from '../devices/testing/fake-machine.js';
import { GENERATIONS } from '../devices/testing/traces.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const LOCK = 'tmp/libtpu_lockfile';
const v5e = GENERATIONS.find(({ name }) => name === 'v5e')!;

let machine: FakeMachine;
let bridge: TemporaryGateway;

beforeEach(async () => {
  machine = await FakeMachine.make();
  await machine.addChips(v5e);
  await machine.write('etc/passwd', 'root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/:/bin/sh\n');
  bridge = await TemporaryGateway.start({ machineRoot: machine.root });
  await bridge.gateway.ready;
});
afterEach(async () => {
  await bridge[Symbol.asyncDispose]();
  await machine[Symbol.asyncDispose]();
});

async function holders(): Promise<HoldersPage> {
  const { status, body } = await bridge.rest('GET', '/bridge/v1/devices/holders');
  expect(status).toBe(200);
  expect([...Value.Errors(HoldersSchema, body)]).toEqual([]);
  return body as HoldersPage;
}

describe('who holds the chips', () => {
  it('names the kernel and its notebook, and ends it on demand', async () => {
    const session = await bridge.rest('POST', '/api/sessions', {
      body: { path: 'train.ipynb', name: '', type: 'notebook', kernel: { name: 'python3' } }
    });
    const { kernel } = session.body as { kernel: { id: string } };
    await machine.addProcess(4711, 'python3', '/dev/vfio/10', '/dev/vfio/11');
    await machine.write('proc/4711/environ', `PATH=/bin\0TPULAB_KERNEL_ID=${kernel.id}\0`);

    const page = await holders();
    expect(page.chips).toBe(v5e.chips);
    expect(page.holders).toMatchObject([
      {
        pid: 4711,
        command: 'python3',
        nodes: ['/dev/vfio/10', '/dev/vfio/11'],
        holdsLock: false,
        kernel: { id: kernel.id, documents: ['train.ipynb'] }
      }
    ]);

    expect((await bridge.rest('POST', '/bridge/v1/devices/holders/4711/end')).status).toBe(204);
    expect((await bridge.rest('GET', `/api/kernels/${kernel.id}`)).status).toBe(404);
  });

  it('does not end a foreign process, and names its owner', async () => {
    await machine.addProcess(9, 'jupyter', '/dev/vfio/10');
    await machine.addProcess(12, 'python3', '/dev/vfio/11');
    await machine.write('proc/12/environ', 'TPULAB_KERNEL_ID=of-another-bridge\0');
    expect((await holders()).holders.map(({ pid, kernel }) => [pid, kernel])).toEqual([
      [9, null],
      [12, null]
    ]);
    for (const [pid, words] of [
      [9, 'is not a kernel of this serve'],
      [12, 'is a kernel of another server (of-another-bridge)']
    ] as const) {
      const refused = await bridge.rest('POST', `/bridge/v1/devices/holders/${pid}/end`);
      expect(refused.status).toBe(409);
      expect(refused.body).toMatchObject({ code: 'holder_not_ours' });
      expect((refused.body as { message: string }).message).toContain(words);
    }
    const ended = await bridge.rest('POST', '/bridge/v1/devices/holders/77/end');
    expect(ended.body).toMatchObject({ code: 'holder_not_found' });
  });
});

describe("libtpu's lock file", () => {
  it('is removed when its owner has ended', async () => {
    await machine.write(LOCK, '');
    await machine.write('proc/locks', '');
    expect((await holders()).lock).toMatchObject({ path: `/${LOCK}`, state: 'left', pids: [] });
    const removed = await bridge.rest('DELETE', '/bridge/v1/devices/lock');
    expect(removed.body).toMatchObject({ state: 'none' });
    await expect(stat(path.join(machine.root, LOCK))).rejects.toThrow('ENOENT');
  });

  it('stays while any process has a lock on it', async () => {
    await machine.write(LOCK, '');
    const { ino } = await stat(path.join(machine.root, LOCK));
    await machine.write('proc/locks', `1: POSIX  ADVISORY  WRITE 4242 fd:01:${ino} 0 EOF\n`);
    expect((await holders()).holders).toMatchObject([{ pid: 4242, holdsLock: true, nodes: [] }]);
    const refused = await bridge.rest('DELETE', '/bridge/v1/devices/lock');
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'lock_not_removable' });
    expect((await stat(path.join(machine.root, LOCK))).isFile()).toBe(true);
  });

  it("stays if other users' locks are not visible", async () => {
    await machine.write(LOCK, '');
    expect((await holders()).lock.state).toBe('unknown');
    expect((await bridge.rest('DELETE', '/bridge/v1/devices/lock')).status).toBe(409);
  });
});
