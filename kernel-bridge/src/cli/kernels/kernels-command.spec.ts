import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { gatewayForAll } from '../../testing/shared-gateway.js';
import { type Ran, runCommand } from '../testing/command-line.js';
import { kernelsCommand } from './kernels-command.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();
let kernelId: string;

beforeAll(async () => {
  const body = { path: 'lessons/one.ipynb', type: 'notebook', kernel: { name: 'python3' } };
  const answer = await bridge.rest('POST', '/api/sessions', { body });
  kernelId = (answer.body as { kernel: { id: string } }).kernel.id;
});

function kernels(...args: readonly string[]): Promise<Ran> {
  return runCommand(kernelsCommand, ...args, '--state-dir', bridge.folder);
}

describe('tpulab kernels', () => {
  it('list shows the kernels with their notebooks', async () => {
    const { stdout } = await kernels('list');
    expect(stdout).toMatch(new RegExp(`^${kernelId}  python3  \\w+  0 clients  lessons/one.ipynb\\n$`));
    const json = JSON.parse((await kernels('list', '--json')).stdout) as unknown;
    expect(json).toMatchObject({
      kernels: [{ id: kernelId, name: 'python3', documents: ['lessons/one.ipynb'] }]
    });
  });

  it('list has one line for a kernel, whatever its notebook is called', async () => {
    const body = { path: 'a\nb\x1b[31m.ipynb', type: 'notebook', kernel: { id: kernelId } };
    const { body: session } = await bridge.rest('POST', '/api/sessions', { body });
    const { stdout } = await kernels('list');
    expect(stdout.split('\n')).toHaveLength(2);
    expect(stdout).not.toContain('\x1b');
    // Ends only this session: the kernel still belongs to the other one.
    await bridge.rest('PATCH', `/api/sessions/${(session as { id: string }).id}`, {
      body: { path: 'lessons/one.ipynb' }
    });
  });

  it('show shows one, found by its notebook, and where its files are', async () => {
    const { stdout } = await kernels('show', 'lessons/one.ipynb');
    expect(stdout).toContain(path.join(bridge.folder, 'kernels', kernelId));
    const { stdout: json } = await kernels('show', kernelId.slice(0, 8), '--json');
    expect(JSON.parse(json)).toMatchObject({ id: kernelId, connections: 0 });
  });

  it('interrupt ends the running cell, and the kernel continues', async () => {
    using client = await bridge.connect(kernelId);
    await client.run('kept = 1');
    const id = client.execute('print("begun", flush=True)\nwhile True: pass');
    await client.until(() => client.printed(id) === 'begun\n');
    expect(await kernels('interrupt', kernelId)).toMatchObject({ error: null });
    await client.done(id);
    expect(client.answers(id).some(({ content }) => content['ename'] === 'KeyboardInterrupt')).toBe(true);
    const again = client.execute('print(kept)');
    await client.done(again);
    expect(client.printed(again)).toBe('1\n');
  });

  it('restart starts it again under its id', async () => {
    using client = await bridge.connect(kernelId);
    await client.run('kept = 1');
    expect(JSON.parse((await kernels('restart', kernelId, '--json')).stdout)).toMatchObject({
      id: kernelId,
      done: 'restarted'
    });
    const id = client.execute("print('kept' in globals())");
    await client.done(id);
    expect(client.printed(id)).toBe('False\n');
  });

  it('stop shuts it down, and it is no longer listed', async () => {
    const own = await bridge.startKernel();
    expect((await kernels('stop', own)).stdout).toBe(`Kernel ${own} was shut down.\n`);
    expect((await kernels('list')).stdout).not.toContain(own);
    expect((await kernels('stop', own)).error).toMatchObject({ code: 'kernel_unknown' });
  });

  it.each(['list', 'show', 'interrupt', 'restart', 'stop'])('%s reports that no gateway runs', async name => {
    const empty = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    const args = name === 'list' ? [name] : [name, kernelId];
    const { error, stdout } = await runCommand(kernelsCommand, ...args, '--state-dir', empty);
    await rm(empty, { recursive: true });
    expect(error).toMatchObject({ code: 'no_gateway' });
    expect(stdout).toBe('');
  });
});
