import { mkdtempSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Value } from '@sinclair/typebox/value';
import { FileEntry, FolderPage, TrashPage } from '@tpulab/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TOKEN, TemporaryGateway } from '../testing/temporary-gateway.js';
import { rawRequest } from '../testing/raw-request.js';

let bridge: TemporaryGateway;
let root: string;

beforeAll(async () => {
  root = mkdtempSync(path.join(tmpdir(), 'tpl-'));
  const page = mkdtempSync(path.join(root, '.page-'));
  await writeFile(
    path.join(page, 'index.html'),
    '<!doctype html><html><head><script>alert(1)</script></head></html>'
  );
  bridge = await TemporaryGateway.start({ rootDir: root, sessionPage: page });
  await bridge.gateway.ready;
});

afterAll(async () => {
  await bridge[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

const NAME = '/bridge/v1/files/my%20notes%C3%BC.ipynb';

describe('/bridge/v1/files', () => {
  it('creates, reads, replaces one version, and refuses an outdated one', async () => {
    const made = await bridge.rest('PUT', NAME, { text: '{"a": 1}', headers: { 'if-none-match': '*' } });
    expect(made.status).toBe(201);
    expect(Value.Check(FileEntry, made.body)).toBe(true);
    const read = await bridge.rest('GET', NAME);
    expect(read).toMatchObject({ status: 200, body: '{"a": 1}' });
    expect(read.headers.get('content-disposition')).toBe('attachment');
    const etag = read.headers.get('etag')!;
    expect((await bridge.rest('GET', NAME, { headers: { 'if-none-match': etag } })).status).toBe(304);
    expect((await bridge.rest('HEAD', NAME)).headers.get('etag')).toBe(etag);
    const saved = await bridge.rest('PUT', NAME, { text: 'not JSON', headers: { 'if-match': etag } });
    expect(saved.status).toBe(200);
    const late = await bridge.rest('PUT', NAME, { text: 'late', headers: { 'if-match': etag } });
    expect(late).toMatchObject({ status: 412, body: { code: 'file_changed' } });
    expect(await readFile(path.join(root, 'my notesü.ipynb'), 'utf8')).toBe('not JSON');
    const both = { 'if-match': etag, 'if-none-match': '*' };
    expect((await bridge.rest('PUT', NAME, { text: 'x', headers: both })).status).toBe(400);
  });

  it('lists, makes a folder, moves into it, moves into the trash, and restores from it', async () => {
    expect((await bridge.rest('POST', '/bridge/v1/folders/deep')).status).toBe(201);
    expect((await bridge.rest('POST', '/bridge/v1/folders/deep')).status).toBe(409);
    const moved = await bridge.rest('PATCH', NAME, { body: { to: 'deep/b.ipynb' } });
    expect(moved).toMatchObject({ status: 200, body: { path: 'deep/b.ipynb' } });
    const page = await bridge.rest('GET', '/bridge/v1/folders/deep');
    expect(Value.Check(FolderPage, page.body)).toBe(true);
    expect((await bridge.rest('GET', '/bridge/v1/folders/')).body).toMatchObject({
      entries: [{ name: 'deep' }]
    });
    expect((await bridge.rest('DELETE', '/bridge/v1/files/deep/b.ipynb')).status).toBe(200);
    expect((await bridge.rest('DELETE', '/bridge/v1/files/deep/b.ipynb')).status).toBe(404);
    const trash = await bridge.rest('GET', '/bridge/v1/trash');
    expect(Value.Check(TrashPage, trash.body)).toBe(true);
    const { id } = (trash.body as TrashPage).items[0]!;
    const restored = await bridge.rest('POST', '/bridge/v1/trash/restore', { body: { id } });
    expect(restored).toMatchObject({ status: 200, body: { path: 'deep/b.ipynb' } });
    const again = await bridge.rest('POST', '/bridge/v1/trash/restore', { body: { id } });
    expect(again).toMatchObject({ status: 404, body: { code: 'file_not_found' } });
    const wrong = await bridge.rest('POST', '/bridge/v1/trash/restore', { body: { id: '../..', to: 'x' } });
    expect(wrong.status).toBe(400);
  });

  it('permanently deletes one entry of the trash, or all', async () => {
    const ids: string[] = [];
    for (const name of ['one', 'two', 'three']) {
      await bridge.rest('POST', `/bridge/v1/folders/${name}`);
      const { body } = await bridge.rest('DELETE', `/bridge/v1/files/${name}`);
      ids.push((body as { id: string }).id);
    }
    expect((await bridge.rest('DELETE', `/bridge/v1/trash/${ids[0]}`)).status).toBe(204);
    expect((await bridge.rest('DELETE', `/bridge/v1/trash/${ids[0]}`)).status).toBe(404);
    expect(await bridge.rest('DELETE', '/bridge/v1/trash')).toMatchObject({
      status: 200,
      body: { deleted: 2 }
    });
    expect((await bridge.rest('GET', '/bridge/v1/trash')).body).toEqual({ items: [], isCut: false });
  });

  const rawGet = (name: string) =>
    rawRequest(
      bridge.url,
      `GET /bridge/v1/files/${name} HTTP/1.1\r\nHost: localhost\r\nAuthorization: token ${TOKEN}\r\nConnection: close\r\n\r\n`
    );

  it.each(['..%2fsecret', '%2e%2e/secret', '%00', '..%5csecret', '.git/config'])('refuses %s', async name => {
    const { status, text } = await rawGet(name);
    expect(status).toBe(400);
    expect(text).toContain('file_path_invalid');
  });

  it('accepts a backslash in a name', async () => {
    const { status, text } = await rawGet('a%5cb');
    expect(status).toBe(404);
    expect(text).toContain('file_not_found');
  });
});

describe('/session', () => {
  it('is served without a token, may run only its own scripts, and knows its address', async () => {
    const page = await bridge.rest('GET', '/session/some/notebook.ipynb', { token: null });
    expect(page.status).toBe(200);
    expect(page.body).toContain('<base href="/session/">');
    const policy = page.headers.get('content-security-policy')!;
    // No script of a notebook runs, not even one that a kernel sends for a widget.
    expect(policy).toMatch(/script-src 'self' 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF\+pI=';/);
    expect(policy).not.toMatch(/script-src[^;]*(unsafe|blob)/);
    expect(page.headers.get('referrer-policy')).toBe('no-referrer');
  });

  it('has a frame for outputs with scripts, with an opaque origin and without access to the gateway', async () => {
    const frame = await bridge.rest('GET', '/session/_frame', { token: null });
    expect(frame.status).toBe(200);
    expect(frame.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const policy = frame.headers.get('content-security-policy')!;
    expect(policy).toMatch(/^sandbox allow-scripts; default-src 'none';/);
    // Only the page may embed the frame, which loads nothing from the gateway.
    expect(policy.match(/'self'/g)).toEqual(["'self'"]);
    expect(policy).toContain("frame-ancestors 'self'");
    expect(policy).not.toMatch(/allow-same-origin|allow-top|http:|ws/);
  });

  it('serves only the page: no other file, no other method, no other host', async () => {
    for (const target of [
      '/session/_page/../index.html',
      '/session/_page/x.js',
      '/session/_page/%2e%2e/index.html'
    ])
      expect((await bridge.rest('GET', target, { token: null })).body).not.toContain('secret');
    expect((await bridge.rest('GET', '/session/_page/nothing.js', { token: null })).status).toBe(404);
    expect((await bridge.rest('POST', '/session/', { token: null })).status).toBe(403);
    expect((await bridge.rest('GET', '/sessions', { token: null })).status).toBe(403);
    const { status } = await rawRequest(
      bridge.url,
      'GET /session/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n'
    );
    expect(status).toBe(403);
  });
});
