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
    await run(['session', ...args, '--no-browser', '--json', '--state-dir', bridge.folder], streams);
    return JSON.parse(out);
  };

  it('links to the notebook at the gateway that runs, with the token in the fragment', async () => {
    expect(await session(path.join(root, 'a b.ipynb'))).toEqual({
      url: `${bridge.url}session/a%20b.ipynb#token=${TOKEN}`
    });
    expect(await session()).toEqual({ url: `${bridge.url}session/#token=${TOKEN}` });
  });

  it('refuses a notebook that does not exist, or that the gateway does not serve', async () => {
    const other = path.join(bridge.folder, 'b.ipynb');
    expect(await session(other)).toMatchObject({ error: { code: 'notebook_unusable' } });
    writeFileSync(other, '');
    expect(await session(other)).toMatchObject({ error: { code: 'notebook_unusable' } });
  });

  it('keeps the prefix of a gateway behind a proxy', () => {
    expect(sessionLink('http://127.0.0.1:1/some/where/', 'x+y', 'd/ü.ipynb')).toBe(
      'http://127.0.0.1:1/some/where/session/d/%C3%BC.ipynb#token=x%2By'
    );
  });
});
