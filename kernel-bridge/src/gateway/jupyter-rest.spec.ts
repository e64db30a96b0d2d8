import { randomUUID } from 'node:crypto';
import { mkdir, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

interface KernelBody {
  readonly id: string;
  readonly execution_state: string;
}

const bridge = gatewayForAll();

beforeAll(async () => {
  await mkdir(path.join(bridge.folder, 'deep', 'er'), { recursive: true });
});

afterEach(async () => {
  const { registry } = bridge.gateway;
  await Promise.all(registry.list().map(kernel => registry.remove(kernel.id)));
});

const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

async function kernel(body: object = { name: 'python3' }): Promise<KernelBody> {
  const answer = await bridge.rest('POST', '/api/kernels', { body });
  expect(answer.status).toBe(201);
  return answer.body as KernelBody;
}

async function remove(id: string): Promise<void> {
  expect((await bridge.rest('DELETE', `/api/kernels/${id}`)).status).toBe(204);
}

async function listed(what: 'kernels'): Promise<string[]> {
  return ((await bridge.rest('GET', `/api/${what}`)).body as { id: string }[]).map(({ id }) => id);
}

describe('general', () => {
  it('[1] /api returns the version, and ignores unknown query arguments', async () => {
    expect(await bridge.rest('GET', '/api?1700000000')).toMatchObject({
      status: 200,
      body: { version: expect.stringMatching(/^\d+\.\d+\.\d+$/) as string }
    });
  });

  it('[1] /api/status counts kernels and connections, with UTC times', async () => {
    const { id } = await kernel();
    using client = await bridge.connect(id);
    await client.run('1');
    const { body } = await bridge.rest('GET', '/api/status');
    expect(body).toMatchObject({ kernels: 1, connections: 1 });
    expect(body).toMatchObject({
      started: expect.stringMatching(UTC) as string,
      last_activity: expect.stringMatching(UTC) as string
    });
    await remove(id);
  });

  it('[1] /api/me grants the requested permissions', async () => {
    const permissions = { contents: ['read'], kernels: ['execute'] };
    const { body } = await bridge.rest(
      'GET',
      `/api/me?permissions=${encodeURIComponent(JSON.stringify(permissions))}`
    );
    expect(body).toMatchObject({ identity: { username: 'tpulab' }, permissions });
    expect((await bridge.rest('GET', '/api/me')).body).toMatchObject({ permissions: {} });
    for (const wrong of ['x', '[]', '{"a":1}']) {
      expect((await bridge.rest('GET', `/api/me?permissions=${encodeURIComponent(wrong)}`)).status).toBe(400);
    }
  });

  it('the description of the API names every route', async () => {
    const { body } = await bridge.rest('GET', '/bridge/v1/openapi.json');
    const paths = Object.keys((body as { paths: object }).paths);
    for (const { url } of bridge.gateway.routes) {
      // The routes of a remote are described by the remote.
      if (url === '/machines/:name/*') continue;
      expect(paths).toContain(url.replace(/:(\w+)/g, '{$1}').replace(/\*$/, '{*}'));
    }
  });
});

describe('kernelspecs', () => {
  it('[2] are listed with the default and their resources', async () => {
    const { body } = await bridge.rest('GET', '/api/kernelspecs');
    expect(body).toMatchObject({
      default: 'python3',
      kernelspecs: {
        python3: {
          name: 'python3',
          spec: {
            display_name: 'Spec python3',
            language: 'python',
            metadata: { tpulab: { bestEffort: true } }
          },
          resources: { 'logo-svg': '/kernelspecs/python3/logo-svg.svg' }
        }
      }
    });
  });

  it('[2] one can be requested by its name; an unknown one is 404', async () => {
    expect(await bridge.rest('GET', '/api/kernelspecs/python3')).toMatchObject({
      status: 200,
      body: { name: 'python3' }
    });
    expect(await bridge.rest('GET', '/api/kernelspecs/nope')).toMatchObject({
      status: 404,
      body: { code: 'kernelspec_not_found' }
    });
  });

  it('[2] their logos are served, and no other file', async () => {
    const logo = await bridge.rest('GET', '/kernelspecs/python3/logo-svg.svg');
    expect([logo.status, logo.headers.get('content-type')]).toEqual([200, 'image/svg+xml']);
    expect(logo.body).toContain('<svg');
    for (const file of ['kernel.json', '..%2Fpython3%2Fkernel.json', '%2Fetc%2Fpasswd', 'logo-64x64.png']) {
      expect((await bridge.rest('GET', `/kernelspecs/python3/${file}`)).status).toBe(404);
    }
  });
});

describe('kernels', () => {
  it('[3] a kernel is started, listed, described and deleted', async () => {
    const answer = await bridge.rest('POST', '/api/kernels', { body: { name: 'python3' } });
    const { id } = answer.body as KernelBody;
    expect(answer.status).toBe(201);
    expect(answer.headers.get('location')).toBe(`/api/kernels/${id}`);
    expect(answer.body).toMatchObject({
      name: 'python3',
      connections: 0,
      last_activity: expect.stringMatching(UTC) as string
    });
    expect(await listed('kernels')).toEqual([id]);
    expect(await bridge.rest('GET', `/api/kernels/${id}`)).toMatchObject({ status: 200, body: { id } });
    await remove(id);
    expect(await listed('kernels')).toEqual([]);
    expect(await bridge.rest('GET', `/api/kernels/${id}`)).toMatchObject({
      status: 404,
      body: { code: 'kernel_not_found' }
    });
    expect((await bridge.rest('DELETE', `/api/kernels/${id}`)).status).toBe(404);
  });

  it('[3] without a body, even with a content type, the default kernel is started', async () => {
    const answer = await bridge.rest('POST', '/api/kernels', {
      headers: { 'content-type': 'application/json' }
    });
    expect(answer).toMatchObject({ status: 201, body: { name: 'python3' } });
    await remove((answer.body as KernelBody).id);
  });

  it('[3] the client may choose the id, once', async () => {
    const id = randomUUID();
    expect(await kernel({ name: 'python3', kernel_id: id })).toMatchObject({ id });
    const again = await bridge.rest('POST', '/api/kernels', { body: { name: 'python3', kernel_id: id } });
    expect(again).toMatchObject({ status: 409, body: { code: 'kernel_exists' } });
    await remove(id);
  });

  it.each(['x', '../../../../tmp/x', `${randomUUID()}/..`])(
    '[3] the id %j cannot be chosen',
    async kernel_id => {
      const answer = await bridge.rest('POST', '/api/kernels', { body: { name: 'python3', kernel_id } });
      expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    }
  );

  it('[3] an unknown kernelspec is 501 with both messages', async () => {
    const answer = await bridge.rest('POST', '/api/kernels', { body: { name: 'nope' } });
    expect(answer).toMatchObject({
      status: 501,
      body: { code: 'kernelspec_unknown', short_message: 'nope not found' }
    });
    expect(await listed('kernels')).toEqual([]);
  });

  it('[3] a restart that fails is 500 in JSON with the reason, and the kernel is listed as dead', async () => {
    // A kernel that starts only while its program exists.
    const program = path.join(bridge.folder, 'program');
    const specFile = path.join(bridge.folder, 'jupyter', 'kernels', 'python3', 'kernel.json');
    const spec = JSON.parse(await readFile(specFile, 'utf8')) as { argv: string[] };
    await writeFile(program, `#!/bin/sh\nexec "${spec.argv[0]}" "$@"\n`, { mode: 0o755 });
    const folder = path.join(bridge.folder, 'jupyter', 'kernels', 'leaves');
    await mkdir(folder);
    const argv = [program, ...spec.argv.slice(1)];
    await writeFile(path.join(folder, 'kernel.json'), JSON.stringify({ ...spec, argv }));
    const id = await bridge.startKernel({ name: 'leaves' });
    // Before the kernel has answered, the shell may not have read its program.
    using client = await bridge.connect(id);
    await client.run('pass');
    await rm(program);
    const answer = await bridge.rest('POST', `/api/kernels/${id}/restart`);
    expect(answer.status).toBe(500);
    expect(answer.headers.get('content-type')).toContain('application/json');
    expect(answer.body).toMatchObject({
      code: 'kernel_action_failed',
      message: expect.stringContaining(`Could not restart kernel ${id}: `) as string
    });
    expect(answer.body).toHaveProperty('reason');
    expect(await bridge.rest('GET', `/api/kernels/${id}`)).toMatchObject({
      status: 200,
      body: { execution_state: 'dead', reason: expect.any(String) as string }
    });
    expect((await bridge.rest('DELETE', `/api/kernels/${id}`)).status).toBe(204);
  });

  it('[3] interrupt is 204, restart 200 with the model, both 404 for an unknown kernel', async () => {
    const { id } = await kernel();
    using client = await bridge.connect(id);
    await client.run('kept = 1');
    // Waits for output, not for `busy`: a signal before the first line runs does not reach the cell.
    const request = client.execute("print('running', flush=True)\nwhile True: pass");
    await client.until(() => client.printed(request) !== '');
    expect((await bridge.rest('POST', `/api/kernels/${id}/interrupt`)).status).toBe(204);
    const reply = await client.first(
      ({ channel, parent }) => channel === 'shell' && parent.msg_id === request
    );
    expect(reply.content).toMatchObject({ ename: 'KeyboardInterrupt' });
    expect(await bridge.rest('POST', `/api/kernels/${id}/restart`)).toMatchObject({
      status: 200,
      body: { id }
    });
    for (const action of ['interrupt', 'restart']) {
      expect((await bridge.rest('POST', `/api/kernels/${randomUUID()}/${action}`)).status).toBe(404);
    }
    await remove(id);
  });

  it.each([
    ['invalid JSON', '{"name":'],
    ['a list', '[]'],
    ['a wrong type', '{"name": 5}'],
    ['a wrong env', '{"env": {"A": 1}}']
  ])('[5] a body with %s is 400 in JSON and starts nothing', async (_what, text) => {
    const answer = await bridge.rest('POST', '/api/kernels', { text });
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request', reason: 'Bad Request' } });
    expect(await listed('kernels')).toEqual([]);
  });

  it('[5] a body above the limit is 413', async () => {
    const answer = await bridge.rest('POST', '/api/kernels', {
      text: `{"name":"${'x'.repeat(5 * 1024 * 1024)}"}`
    });
    expect(answer).toMatchObject({ status: 413, body: { code: 'payload_too_large' } });
  });

  it("[5] a kernel gets KERNEL_* of the request, and nothing of the gateway's secrets", async () => {
    await using secretive = await TemporaryGateway.start({
      env: {
        ...process.env,
        JUPYTER_PATH: path.join(bridge.folder, 'jupyter'),
        TPULAB_TOKEN: 'hidden',
        JUPYTER_TOKEN: 'hidden'
      }
    });
    await secretive.gateway.ready;
    const id = await secretive.startKernel({ name: 'python3', env: { KERNEL_A: 'seen', OTHER: 'hidden' } });
    using client = await secretive.connect(id);
    const request = client.execute(
      "import os; print(os.environ.get('KERNEL_A'), [k for k, v in os.environ.items() if v == 'hidden'])"
    );
    await client.done(request);
    expect(client.printed(request)).toBe('seen []\n');
  });

  it("[4] a session's kernel starts in the folder of its path, or in the nearest one above", async () => {
    for (const [requested, below] of [
      ['deep/er/none/x.ipynb', 'deep/er'],
      ['../..', '']
    ] as const) {
      const { id } = await kernel({ name: 'python3', path: requested });
      using client = await bridge.connect(id);
      const run = client.execute('import os; print(os.getcwd())');
      await client.done(run);
      expect(client.printed(run).trim()).toBe(await realpath(path.join(bridge.folder, below)));
      await remove(id);
    }
  });
});
