import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { canSignal } from '@tpulab/platform/process-identity.js';
import { ChannelsClient } from '../testing/channels-client.js';
import { ENTRY, GatewayProcess } from '../testing/gateway-process.js';
import { TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

let folder: string;
let stateDir: string;
let gateway: GatewayProcess;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  stateDir = path.join(folder, 'state');
  gateway = await GatewayProcess.start(stateDir);
});

afterEach(async () => {
  if (gateway.child.exitCode !== null || gateway.child.signalCode !== null)
    gateway = await GatewayProcess.start(stateDir);
  await promisify(execFile)(process.execPath, [ENTRY, 'stop', '--kernels', '--state-dir', stateDir]);
  // A keeper that is ending may still write.
  await rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

async function rest(
  method: string,
  target: string,
  body?: object
): Promise<{ status: number; body: unknown }> {
  const response = await fetch(new URL(target, gateway.url), {
    method,
    headers: { authorization: `token ${TOKEN}` },
    ...(body ? { body: JSON.stringify(body) } : {})
  });
  return { status: response.status, body: response.status === 204 ? null : await response.json() };
}

async function startKernel(): Promise<string> {
  const { body } = await rest('POST', 'api/kernels', { name: 'lossless' });
  return (body as { id: string }).id;
}

function connect(kernelId: string, sessionId: string): Promise<ChannelsClient> {
  return ChannelsClient.connect({ url: gateway.url, token: TOKEN, kernelId, sessionId });
}

/** Prints numbered lines, each flushed, and waits at a third for the file `gate`. */
function counting(lines: number, gate: string): string {
  return `
import os, time
for n in range(${lines}):
    print(n, flush=True)
    while n == ${Math.floor(lines / 3)} and not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.01)
`;
}

describe('a gateway that is killed', () => {
  it('in the middle of a cell loses none of its lines, for a client that reconnects', async () => {
    const gate = path.join(folder, 'gate');
    const lines = 3000;
    using before = await connect(await startKernel(), 'front');
    const kernelId = (await rest('GET', 'api/kernels')).body as [{ id: string }];
    const id = before.execute(counting(lines, gate));
    // Killed while lines are in flight, not in a pause.
    await before.until(() => before.printed(id).length > 500);
    await gateway.end('SIGKILL');
    await before.untilClosed();
    await writeFile(gate, '');
    gateway = await GatewayProcess.start(stateDir, gateway.port);

    using again = await connect(kernelId[0].id, 'front');
    await again.done(id);
    const seen = new Set<string>();
    const text = [...before.messages, ...again.messages]
      .filter(({ header }) => !seen.has(header.msg_id) && seen.add(header.msg_id))
      .filter(({ header, parent }) => header.msg_type === 'stream' && parent.msg_id === id)
      .map(({ content }) => content['text'])
      .join('');
    expect(text).toBe(Array.from({ length: lines }, (_, n) => `${n}\n`).join(''));
    const ids = again.messages.map(({ header }) => header.msg_id);
    expect(ids).toHaveLength(new Set(ids).size);
  });

  it('is followed by a gateway with the same kernels and sessions', async () => {
    const session = await rest('POST', 'api/sessions', {
      path: 'a/b.ipynb',
      type: 'notebook',
      name: 'b',
      kernel: { name: 'lossless' }
    });
    const kernelId = (session.body as { kernel: { id: string } }).kernel.id;
    using client = await connect(kernelId, 'front');
    await client.run('kept = 41');
    await gateway.end('SIGKILL');
    gateway = await GatewayProcess.start(stateDir);
    const found = (await rest('GET', 'api/sessions')).body as {
      id: string;
      path: string;
      kernel: { id: string };
    }[];
    expect(found).toMatchObject([
      { id: (session.body as { id: string }).id, path: 'a/b.ipynb', kernel: { id: kernelId } }
    ]);
    using again = await connect(kernelId, 'front');
    const id = again.execute('print(kept + 1)');
    await again.done(id);
    expect(again.printed(id)).toBe('42\n');
  });
});

describe('a gateway that is shut down', () => {
  it('[12] closes its sockets with 1012 and leaves the kernels to the next gateway', async () => {
    const kernelId = await startKernel();
    using client = await connect(kernelId, 'front');
    await client.run('pass');
    await gateway.end('SIGTERM');
    expect(await client.untilClosed()).toMatchObject({ code: 1012 });
    expect(gateway.child.exitCode).toBe(0);
    expect(existsSync(path.join(stateDir, 'gateway.json'))).toBe(false);
    gateway = await GatewayProcess.start(stateDir);
    expect((await rest('GET', 'api/kernels')).body).toMatchObject([{ id: kernelId }]);
  });

  it('and also ends its kernels leaves no process behind, and only the journals in their folders', async () => {
    const kernelId = await startKernel();
    using client = await connect(kernelId, 'front');
    const id = client.execute('import os; print(os.getpid(), os.getppid())');
    await client.done(id);
    const pids = client.printed(id).trim().split(' ').map(Number);
    await rest('DELETE', `api/kernels/${kernelId}`);
    expect((await client.untilClosed()).code).toBe(1000);
    await vi.waitUntil(() => pids.every(pid => !canSignal(pid)), { timeout: 60_000 });
    const left = await readdir(path.join(stateDir, 'kernels', kernelId));
    expect(left).toEqual(expect.arrayContaining(['ended.json', 'journal']));
    expect(left).not.toContain('launch.json');
    expect(await readdir(path.join(stateDir, 'run'))).toEqual([]);
  });
});
