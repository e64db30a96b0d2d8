import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';
import { run } from './program.js';
import { sessionLink } from './session-command.js';

describe('tpulab session', () => {
  let root: string;
  let bridge: TemporaryGateway;

  beforeAll(async () => {
    root = mkdtempSync(path.join(tmpdir(), 'tpl-'));
    writeFileSync(path.join(root, 'a b.ipynb'), '');
    bridge = await TemporaryGateway.start({ rootDir: root });
    await bridge.gateway.ready;
  });

  afterAll(async () => {
    await bridge[Symbol.asyncDispose]();
    await rm(root, { recursive: true, force: true });
  });

  const session = async (...args: string[]): Promise<unknown> => {
    let out = '';
    const streams = { stdout: { write: (text: string) => (out += text) }, stderr: { write: () => true } };
    // Without a command, as `uvx tpulab` and `npx tpulab` run it.
    await run(
      [
        ...(args.length > 0 ? ['session', ...args] : []),
        '--no-browser',
        '--json',
        '--state-dir',
        bridge.folder
      ],
      streams
    );
    return JSON.parse(out);
  };

  // The link stays in the browser's history, so it must be worthless later.
  it('links to the notebook at the running gateway, with a code that works once', async () => {
    const linked = async (...args: string[]): Promise<URL> =>
      new URL(((await session(...args)) as { url: string }).url);
    const link = await linked(path.join(root, 'a b.ipynb'));
    expect(link.href).toMatch(/^http.+\/session\/a%20b\.ipynb#code=code-[0-9a-f]{64}$/);
    expect((await linked()).pathname).toBe('/session/');
    expect(link.href).not.toContain(TOKEN);
    const code = new URLSearchParams(link.hash.slice(1)).get('code') ?? '';
    const request = (route: string, token: string, cookie?: string): Promise<Response> =>
      fetch(new URL(route, bridge.url), {
        headers: { authorization: `token ${token}`, ...(cookie !== undefined && { cookie }) }
      });
    // It grants access to this one route only.
    expect((await request('api/kernels', code)).status).toBe(403);
    const first = await request('bridge/v1/page-key', code);
    const { key } = (await first.json()) as { key: string };
    const cookie = first.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await request('api/kernels', key, cookie)).status).toBe(200);
    expect((await request('bridge/v1/page-key', code)).status).toBe(403);
  });

  it('refuses a notebook that does not exist, or that the gateway does not serve', async () => {
    const other = path.join(bridge.folder, 'b.ipynb');
    expect(await session(other)).toMatchObject({ error: { code: 'notebook_unusable' } });
    writeFileSync(other, '');
    expect(await session(other)).toMatchObject({ error: { code: 'notebook_unusable' } });
  });

  it('preserves the prefix of a gateway behind a proxy', () => {
    expect(sessionLink('http://127.0.0.1:1/some/where/', 'x+y', 'd/ü.ipynb')).toBe(
      'http://127.0.0.1:1/some/where/session/d/%C3%BC.ipynb#code=x%2By'
    );
  });
});
