import { mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { writeKernelSpecs } from '../testing/kernelspecs.js';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();
let route: string;

beforeAll(async () => {
  // The data folder with which the gateway was started.
  const data = writeKernelSpecs(bridge.folder);
  await mkdir(path.join(data, 'nbextensions', 'some-widget'), { recursive: true });
  await writeFile(path.join(data, 'nbextensions', 'some-widget', 'index.js'), 'define([], () => ({}));');
  await writeFile(path.join(data, 'secret.js'), 'secret');
  await writeFile(path.join(bridge.folder, 'secret.js'), 'secret');
  await symlink(path.join(bridge.folder, 'secret.js'), path.join(data, 'nbextensions', 'outside.js'));
  const { body } = await bridge.rest('POST', '/api/kernels', { body: { name: 'python3' } });
  route = `/bridge/v1/kernels/${(body as { id: string }).id}/frontend`;
});

describe('the front-end files in the environment of a kernel', () => {
  it('are served as downloads, to holders of the token', async () => {
    const file = await bridge.rest('GET', `${route}/nbextensions/some-widget/index.js`);
    expect(file).toMatchObject({ status: 200, body: 'define([], () => ({}));' });
    expect(file.headers.get('content-disposition')).toBe('attachment');
    expect(file.headers.get('x-content-type-options')).toBe('nosniff');
    const refused = await bridge.rest('GET', `${route}/nbextensions/some-widget/index.js`, { token: null });
    expect(refused.status).toBe(403);
  });

  it('are the only files served from the environment and the machine', async () => {
    for (const requested of [
      'secret.js',
      'nbextensions/../secret.js',
      'nbextensions/%2e%2e/secret.js',
      'nbextensions/outside.js',
      'kernels/python3/kernel.json',
      'nbextensions/nothing.js'
    ]) {
      const answer = await bridge.rest('GET', `${route}/${requested}`);
      expect([requested, answer.status]).toEqual([
        requested,
        expect.toSatisfy((status: number) => status >= 400)
      ]);
    }
    const none = '/bridge/v1/kernels/00000000-0000-4000-8000-000000000000/frontend/nbextensions/x.js';
    expect((await bridge.rest('GET', none)).status).toBe(404);
  });
});
