import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it, vi } from 'vitest';
import { canSignal } from '@tpulab/platform/process-identity.js';
import { isStatus } from '../testing/channels-client.js';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();

async function kernelOf() {
  const id = await bridge.startKernel({ name: 'lossless' });
  const client = await bridge.connect(id, { sessionId: 'front' });
  const request = client.execute('kept = 1; import os; print(os.getpid())');
  await client.done(request);
  const pid = Number(client.printed(request));
  const { keeperPid } = bridge.gateway.registry.get(id).snapshot;
  return { id, client, pid, keeperPid };
}

/** Kills both together, as when the machine is short of memory: no process remains that could be queried. */
async function kernelLost() {
  const { id, client, pid, keeperPid } = await kernelOf();
  process.kill(keeperPid, 'SIGSTOP');
  process.kill(pid, 'SIGKILL');
  process.kill(keeperPid, 'SIGKILL');
  await client.first(message => isStatus(message, 'dead'));
  return { id, client, pid };
}

it('gives a kernel whose keeper was killed a new keeper, and its clients notice nothing', async () => {
  const { id, client, pid, keeperPid } = await kernelOf();
  const gate = path.join(bridge.folder, 'gate');
  // The cell continues when its keeper has ended, however long that takes.
  const slow = client.execute(`
import os, time
for n in range(300):
    print(n, flush=True)
    time.sleep(0.01)
    while n == 50 and not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.01)
`);
  await client.first(message => message.parent.msg_id === slow && message.header.msg_type === 'stream');
  const early = Array.from({ length: 5 }, (_, n) => client.execute(`print('early', ${n})`));
  process.kill(keeperPid, 'SIGKILL');
  writeFileSync(gate, '');
  const meanwhile = Array.from({ length: 5 }, (_, n) => client.execute(`print('meanwhile', ${n})`));
  await client.done(slow);
  for (const [n, id] of early.entries()) {
    await client.done(id);
    expect(client.printed(id)).toBe(`early ${n}\n`);
  }
  for (const [n, id] of meanwhile.entries()) {
    await client.done(id);
    expect(client.printed(id)).toBe(`meanwhile ${n}\n`);
  }
  expect(client.printed(slow)).toBe(Array.from({ length: 300 }, (_, n) => `${n}\n`).join(''));
  expect(bridge.gateway.registry.get(id).snapshot.keeperPid).not.toBe(keeperPid);
  const request = client.execute('import os; print(kept, os.getpid())');
  await client.done(request);
  expect(client.printed(request)).toBe(`1 ${pid}\n`);
  expect(client.closed).toBeNull();
  expect(client.messages.filter(message => isStatus(message, 'dead'))).toEqual([]);
  client[Symbol.dispose]();
});

it("reports a kernel as dead when it ended with its keeper, in the kernel's own name, and keeps the sockets", async () => {
  const { id, client } = await kernelLost();
  const output = client.messages.filter(message => isStatus(message, 'dead'));
  expect(output).toHaveLength(1);
  expect(output[0]?.header.session).toBe(client.messages[0]?.header.session);
  expect(client.closed).toBeNull();
  const { body } = await bridge.rest('GET', `/api/kernels/${id}`);
  expect(body).toMatchObject({
    execution_state: 'dead',
    reason: expect.stringContaining('has ended') as string
  });
  client[Symbol.dispose]();
});

it('a restart brings it back under the same id, with the same clients and a journal that continues', async () => {
  const { id, client, pid } = await kernelLost();
  const { lastSeq } = bridge.gateway.registry.get(id);
  expect(await bridge.rest('POST', `/api/kernels/${id}/restart`)).toMatchObject({
    status: 200,
    body: { id }
  });
  const request = client.execute("print('kept' in globals())");
  await client.done(request);
  expect(client.printed(request)).toBe('False\n');
  expect(bridge.gateway.registry.get(id).lastSeq).toBeGreaterThan(lastSeq);
  await vi.waitUntil(() => !canSignal(pid), { timeout: 60_000 });
  client[Symbol.dispose]();
});

it('deleting it closes the sockets of its clients', async () => {
  const { id, client, pid } = await kernelLost();
  expect((await bridge.rest('DELETE', `/api/kernels/${id}`)).status).toBe(204);
  expect((await client.untilClosed()).code).toBe(1000);
  await vi.waitUntil(() => !canSignal(pid), { timeout: 60_000 });
});
