import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { chooseKernel, documentsInState, kernelsInState } from '../cli/kernels/choose-kernel.js';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

interface KernelBody {
  readonly id: string;
  readonly execution_state: string;
}

interface SessionBody {
  readonly id: string;
  readonly path: string;
  readonly kernel: KernelBody;
}

const bridge = gatewayForAll();

afterEach(async () => {
  const { registry } = bridge.gateway;
  await Promise.all(registry.list().map(kernel => registry.remove(kernel.id)));
});

async function kernel(body: object = { name: 'python3' }): Promise<KernelBody> {
  const answer = await bridge.rest('POST', '/api/kernels', { body });
  expect(answer.status).toBe(201);
  return answer.body as KernelBody;
}

async function session(body: object): Promise<SessionBody> {
  const answer = await bridge.rest('POST', '/api/sessions', { body });
  expect(answer.status).toBe(201);
  return answer.body as SessionBody;
}

async function remove(id: string): Promise<void> {
  expect((await bridge.rest('DELETE', `/api/kernels/${id}`)).status).toBe(204);
}

async function listed(what: 'kernels' | 'sessions'): Promise<string[]> {
  return ((await bridge.rest('GET', `/api/${what}`)).body as { id: string }[]).map(({ id }) => id);
}

describe('sessions', () => {
  it('[4] a session is created with its kernel, found by its path, changed and deleted', async () => {
    const body = { path: 'nowhere/a.ipynb', type: 'notebook', name: 'a.ipynb', kernel: { name: 'python3' } };
    const answer = await bridge.rest('POST', '/api/sessions', { body });
    const made = answer.body as SessionBody;
    expect(answer.status).toBe(201);
    expect(answer.headers.get('location')).toBe(`/api/sessions/${made.id}`);
    expect(made).toMatchObject({
      path: body.path,
      type: 'notebook',
      name: 'a.ipynb',
      kernel: { name: 'python3' },
      notebook: { path: body.path }
    });
    expect(await session(body)).toMatchObject({ id: made.id, kernel: { id: made.kernel.id } });
    const target = `/api/sessions/${made.id}`;
    const renamed = await bridge.rest('PATCH', target, {
      body: { path: 'b.ipynb', name: 'b', type: 'console' }
    });
    expect(renamed).toMatchObject({
      status: 200,
      body: { path: 'b.ipynb', name: 'b', type: 'console', kernel: { id: made.kernel.id } }
    });
    expect(await bridge.rest('GET', target)).toMatchObject({ status: 200, body: { path: 'b.ipynb' } });
    expect((await bridge.rest('DELETE', target)).status).toBe(204);
    expect([await listed('sessions'), await listed('kernels')]).toEqual([[], []]);
    for (const method of ['GET', 'DELETE']) expect((await bridge.rest(method, target)).status).toBe(404);
    expect((await bridge.rest('PATCH', target, { body: {} })).status).toBe(404);
  });

  it('[4] two requests for one path at the same time create one session', async () => {
    const body = { path: 'same.ipynb', type: 'notebook', kernel: { name: 'python3' } };
    const [one, two] = await Promise.all([session(body), session(body)]);
    expect(two.id).toBe(one.id);
    expect(await listed('kernels')).toEqual([one.kernel.id]);
    await remove(one.kernel.id);
  });

  it('[4] when two documents request a kernel under the same chosen id at the same time, one gets 409', async () => {
    const id = randomUUID();
    const request = (path: string) =>
      bridge.rest('POST', '/api/sessions', {
        body: { path, type: 'notebook', kernel: { id, name: 'python3' } }
      });
    const answers = await Promise.all([request('first.ipynb'), request('second.ipynb')]);
    const [made, refused] = answers.sort((one, two) => one.status - two.status);
    expect(made).toMatchObject({ status: 201, body: { kernel: { id } } });
    expect(refused).toMatchObject({
      status: 409,
      body: { code: 'kernel_exists', message: expect.stringContaining(id) as string }
    });
    expect(await listed('kernels')).toEqual([id]);
    expect(await listed('sessions')).toEqual([(made.body as SessionBody).id]);
    // Once it runs, it can be chosen.
    const second = await request('second.ipynb');
    expect(second).toMatchObject({ status: 201, body: { kernel: { id } } });
  });

  it.each([
    ['path', { type: 'notebook' }],
    ['type', { path: 'a.ipynb' }]
  ])('[4] a missing %s is 400', async (field, body) => {
    const answer = await bridge.rest('POST', '/api/sessions', { body });
    expect(answer).toMatchObject({ status: 400, body: { message: `Missing field in JSON data: ${field}` } });
  });

  it('[4] an unknown kernelspec is 501 with both messages, and creates no session', async () => {
    const answer = await bridge.rest('POST', '/api/sessions', {
      body: { path: 'a', type: 'notebook', kernel: { name: 'nope' } }
    });
    expect(answer).toMatchObject({ status: 501, body: { short_message: 'nope not found' } });
    expect((answer.body as { message: string }).message).toContain('"nope"');
    expect(await listed('sessions')).toEqual([]);
  });

  it('[4] the old form with a notebook is understood', async () => {
    const made = await session({ notebook: { path: 'old.ipynb' }, kernel: { name: 'python3' } });
    expect(made).toMatchObject({ path: 'old.ipynb', type: 'notebook' });
    await remove(made.kernel.id);
  });

  it('[4] a kernel that runs can be chosen by its id', async () => {
    const { id } = await kernel();
    const made = await session({ path: 'c', type: 'console', kernel: { id, name: 'nope' } });
    expect(made.kernel.id).toBe(id);
    await remove(id);
  });

  it('[4] a kernel that does not run is started under the chosen id, and an invalid id is 404', async () => {
    const id = randomUUID();
    const made = await session({ path: 'd', type: 'console', kernel: { id } });
    expect(made.kernel.id).toBe(id);
    await remove(id);
    const wrong = { path: 'd', type: 'console', kernel: { id: 'nobody' } };
    expect((await bridge.rest('POST', '/api/sessions', { body: wrong })).status).toBe(404);
  });

  it('[4] a change of kernel by name starts a new one and shuts the old one down', async () => {
    const made = await session({ path: 'e.ipynb', type: 'notebook', kernel: { name: 'python3' } });
    const target = `/api/sessions/${made.id}`;
    const changed = await bridge.rest('PATCH', target, { body: { kernel: { name: 'lossless' } } });
    const after = changed.body as SessionBody;
    expect(after).toMatchObject({ id: made.id, kernel: { name: 'lossless' } });
    expect(await listed('kernels')).toEqual([after.kernel.id]);
    await remove(after.kernel.id);
  });

  it('[4] in a change of kernel the id overrides the name, and an unknown id changes nothing', async () => {
    const made = await session({ path: 'f.ipynb', type: 'notebook', kernel: { name: 'python3' } });
    const other = await kernel();
    const target = `/api/sessions/${made.id}`;
    const wrong = await bridge.rest('PATCH', target, {
      body: { kernel: { id: randomUUID(), name: 'python3' } }
    });
    expect(wrong).toMatchObject({ status: 400, body: { code: 'kernel_choice_invalid' } });
    expect(await bridge.rest('GET', target)).toMatchObject({ body: { kernel: { id: made.kernel.id } } });
    const changed = await bridge.rest('PATCH', target, { body: { kernel: { id: other.id, name: 'nope' } } });
    expect(changed).toMatchObject({ status: 200, body: { kernel: { id: other.id } } });
    expect(await listed('kernels')).toEqual([other.id]);
    await remove(other.id);
  });

  it('a kernel that another document uses outlives the session', async () => {
    const one = await session({ path: 'g.ipynb', type: 'notebook', kernel: { name: 'python3' } });
    const two = await session({ path: 'g-console', type: 'console', kernel: { id: one.kernel.id } });
    expect((await bridge.rest('DELETE', `/api/sessions/${one.id}`)).status).toBe(204);
    expect(await listed('kernels')).toEqual([one.kernel.id]);
    expect((await bridge.rest('DELETE', `/api/sessions/${two.id}`)).status).toBe(204);
    expect(await listed('kernels')).toEqual([]);
  });

  it('[4] deleting a session whose kernel ended first is 410', async () => {
    const made = await session({ path: 'h.ipynb', type: 'notebook', kernel: { name: 'python3' } });
    await remove(made.kernel.id);
    expect(await listed('sessions')).toEqual([]);
    const target = `/api/sessions/${made.id}`;
    expect(await bridge.rest('DELETE', target)).toMatchObject({
      status: 410,
      body: { code: 'session_gone' }
    });
    expect((await bridge.rest('DELETE', target)).status).toBe(404);
  });

  it('a kernel that has ended is still found by the path of its notebook; of several, the last one', async () => {
    const choose = async (): Promise<string> =>
      chooseKernel(
        'lessons/ended.ipynb',
        await kernelsInState(bridge.folder),
        await documentsInState(bridge.folder),
        '/'
      );
    const ran: string[] = [];
    for (let round = 0; round < 2; round++) {
      const made = await session({
        path: 'lessons/draft.ipynb',
        type: 'notebook',
        kernel: { name: 'python3' }
      });
      await bridge.rest('PATCH', `/api/sessions/${made.id}`, { body: { path: 'lessons/ended.ipynb' } });
      expect(await choose()).toBe(made.kernel.id);
      using client = await bridge.connect(made.kernel.id);
      await client.run('1');
      await bridge.rest('DELETE', `/api/sessions/${made.id}`);
      ran.push(made.kernel.id);
      expect(await choose()).toBe(made.kernel.id);
    }
    expect(new Set(ran).size).toBe(2);
  });
});
