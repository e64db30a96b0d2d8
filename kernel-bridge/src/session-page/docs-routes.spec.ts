import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fastify } from 'fastify';
import { afterAll, expect, it } from 'vitest';
import { BaseUrl } from '../http/base-url.js';
import { rawRequest } from '../testing/raw-request.js';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { addDocsRoutes } from './docs-routes.js';

const root = mkdtempSync(path.join(tmpdir(), 'tpulab-docs-'));
const folder = path.join(root, 'site');
const put = (name: string, content: string | Buffer) => {
  mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
  writeFileSync(path.join(root, name), content);
};
put('site/index.html', '<script src="/tpulab-docs-base/assets/app.js"></script>');
put('site/404.html', '<a href="/tpulab-docs-base/">not here</a>');
put('site/decisions/index.html', 'decided');
put('site/assets/app.js', 'const base = "/tpulab-docs-base/";');
put('site/sound.wav', Buffer.from([0xff, 0x00, 0xfe]));
put('site/.cache/secret.html', 'for nobody');
put('site/.env', 'for nobody');
put('secret.html', 'for nobody');
symlinkSync(path.join(root, 'secret.html'), path.join(folder, 'linked.html'));

const bridge = gatewayForAll({ documentation: folder, baseUrl: '/user/me/' });
afterAll(() => rm(root, { recursive: true }));

/** Requests a page like Help, whose new tab sends no token. */
const get = (inner: string, headers: Record<string, string> = {}) =>
  fetch(new URL(inner, bridge.url), { headers, redirect: 'manual' });

it('shows the documentation under the address of the server, without a token', async () => {
  const page = await get('docs/');
  expect(page.status).toBe(200);
  expect(await page.text()).toBe('<script src="/user/me/docs/assets/app.js"></script>');
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
  const policy = page.headers.get('content-security-policy');
  expect(policy).toContain("object-src 'none'");
  expect(policy).not.toMatch(/https?:|\*|eval/);
  expect(page.headers.get('x-content-type-options')).toBe('nosniff');
  expect(page.headers.get('referrer-policy')).toBe('no-referrer');
  expect(page.headers.get('cross-origin-opener-policy')).toBe('same-origin');
  expect(page.headers.get('cache-control')).toBe('no-cache');
  expect((await get('docs')).headers.get('location')).toBe('/user/me/docs/');
  expect(await (await get('docs/assets/app.js')).text()).toBe('const base = "/user/me/docs/";');
  expect(await (await get('docs/decisions/')).text()).toBe('decided');
});

it("shows the site's own page to a browser that follows an old link", async () => {
  const page = await get('docs/moved.html', { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' });
  expect(page.status).toBe(404);
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(await page.text()).toBe('<a href="/user/me/docs/">not here</a>');
});

it('contains the address under which a proxy serves it, and no other text in its place', async () => {
  const script = async (prefix: string) =>
    (await get('docs/assets/app.js', { 'x-forwarded-prefix': prefix })).text();
  expect(await script('/user/$&/tpulab/gateway')).toBe('const base = "/user/$&/tpulab/gateway/docs/";');
  for (const prefix of [
    '/"><script>',
    '/a"+alert()+"',
    '//evil.example/a?b',
    '/../x',
    'https://evil.example'
  ])
    expect(await script(prefix)).toMatch(/^const base = "\/(user\/me\/)?docs\/";$/);
});

it('sends audio unchanged, so that it plays', async () => {
  const sound = await get('docs/sound.wav');
  expect(sound.headers.get('content-type')).toBe('audio/wav');
  expect([...new Uint8Array(await sound.arrayBuffer())]).toEqual([0xff, 0x00, 0xfe]);
});

it('sends only files of the site: nothing outside, hidden or linked, and to no other host', async () => {
  for (const name of [
    '../secret.html',
    '%2e%2e/secret.html',
    '..%2fsecret.html',
    'assets/../../secret.html',
    'assets/..%5c..%5csecret.html',
    '/secret.html',
    '%2fsecret.html',
    `${root}/secret.html`,
    'linked.html',
    '.env',
    '.cache/secret.html',
    'assets',
    'assets/',
    'none.html',
    '../bridge/v1/health',
    '%00'
  ]) {
    const { status, text } = await rawRequest(
      bridge.url,
      `GET /user/me/docs/${name} HTTP/1.1\r\nHost: ${new URL(bridge.url).host}\r\nConnection: close\r\n\r\n`
    );
    expect([name, status]).toEqual([name, 404]);
    expect(text).not.toContain('for nobody');
  }
  expect(await (await get('docs/none.html')).text()).toContain('npm run docs');
  expect((await fetch(new URL('docs/', bridge.url), { method: 'POST' })).status).toBe(403);
  expect((await get('docsx')).status).toBe(403);
  const { status } = await rawRequest(
    bridge.url,
    'GET /user/me/docs/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n'
  );
  expect(status).toBe(403);
});

it('shows build instructions if it is not built', async () => {
  const bare = fastify();
  addDocsRoutes(bare, new BaseUrl('/'), path.join(folder, 'assets'));
  const page = await bare.inject({ method: 'GET', url: '/docs/' });
  expect(page.headers['content-type']).toMatch('text/html');
  expect(page.body).toContain('npm run docs');
  await bare.close();
});
