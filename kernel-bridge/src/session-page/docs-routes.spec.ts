import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fastify } from 'fastify';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BaseUrl } from '../http/base-url.js';
import { addDocsRoutes } from './docs-routes.js';

const app = fastify();
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-docs-'));
  await mkdir(path.join(folder, 'assets'));
  await writeFile(path.join(folder, 'index.html'), '<script src="/tpulab-docs-base/assets/app.js"></script>');
  await writeFile(path.join(folder, 'assets/app.js'), 'const base = "/tpulab-docs-base/";');
  await writeFile(path.join(folder, 'sound.wav'), Buffer.from([0xff, 0x00, 0xfe]));
  addDocsRoutes(app, new BaseUrl('/user/me/'), folder);
});

afterAll(async () => {
  await app.close();
  await rm(folder, { recursive: true });
});

const get = (url: string) => app.inject({ method: 'GET', url });

it('shows the documentation under the address of the server, without a token', async () => {
  const page = await get('/docs/');
  expect(page.body).toBe('<script src="/user/me/docs/assets/app.js"></script>');
  expect(page.headers['content-type']).toMatch('text/html');
  expect(page.headers['content-security-policy']).toContain("object-src 'none'");
  expect((await get('/docs')).headers['location']).toBe('/user/me/docs/');
  expect((await get('/docs/assets/app.js')).body).toBe('const base = "/user/me/docs/";');
});

it('sends sound as it is, so that it plays', async () => {
  const sound = await get('/docs/sound.wav');
  expect(sound.headers['content-type']).toBe('audio/wav');
  expect([...sound.rawPayload]).toEqual([0xff, 0x00, 0xfe]);
});

it('refuses a file outside the folder and names the command that builds the pages', async () => {
  for (const name of ['none.html', '../etc/passwd', '%2e%2e/secret'])
    expect((await get(`/docs/${name}`)).statusCode).not.toBe(200);
  expect((await get('/docs/none.html')).body).toContain('npm run docs');
});

it('has a page that says how to build it, where it is not built', async () => {
  const bare = fastify();
  addDocsRoutes(bare, new BaseUrl('/'), path.join(folder, 'assets'));
  const page = await bare.inject({ method: 'GET', url: '/docs/' });
  expect(page.headers['content-type']).toMatch('text/html');
  expect(page.body).toContain('npm run docs');
  await bare.close();
});
