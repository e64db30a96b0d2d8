import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs';
import { once } from 'node:events';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { requestGateway } from './gateway-request.js';
import { TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';
import { defaultSocketPath } from './unix-listening.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'tpl-'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** The status of a request over the socket with this token and Host header. */
function status(socketPath: string, token: string | null, host = 'localhost:8890'): Promise<number> {
  const headers = { host, ...(token === null ? {} : { authorization: `token ${token}` }) };
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, path: '/api/kernels', headers }, response => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on('error', reject);
    sent.end();
  });
}

async function refusal(unixSocket: string): Promise<unknown> {
  return TemporaryGateway.start({ unixSocket }).then(
    async bridge => {
      await bridge[Symbol.asyncDispose]();
      return null;
    },
    (error: unknown) => (error as { code: unknown }).code
  );
}

describe('a gateway on a unix socket', () => {
  it('is 0600 in a folder of 0700, requires a token too, and leaves nothing behind', async () => {
    const socketPath = defaultSocketPath(folder);
    {
      await using bridge = await TemporaryGateway.start({ stateDir: folder, unixSocket: socketPath });
      await bridge.gateway.ready;
      expect(bridge.url).toBe(`http+unix://${encodeURIComponent(socketPath)}/`);
      expect(statSync(socketPath).mode & 0o777).toBe(0o600);
      expect(statSync(path.dirname(socketPath)).mode & 0o777).toBe(0o700);
      expect(await status(socketPath, TOKEN)).toBe(200);
      expect(await status(socketPath, null)).toBe(403);
      expect(await status(socketPath, TOKEN, 'evil.example')).toBe(403);
      const answer = await requestGateway({
        url: bridge.url,
        token: TOKEN,
        method: 'GET',
        path: 'bridge/v1/health',
        timeoutMs: 60_000
      });
      expect([answer.status, JSON.parse(answer.body)]).toMatchObject([200, { status: 'ok' }]);
      const socket = new WebSocket(`ws+unix://${socketPath}:/bridge/v1/events?token=${TOKEN}`);
      await once(socket, 'open');
      socket.terminate();
    }
    expect(existsSync(socketPath)).toBe(false);
  });

  it('refuses a folder that others can enter', async () => {
    const open = path.join(folder, 'open');
    mkdirSync(open);
    chmodSync(open, 0o755);
    expect(await refusal(path.join(open, 's'))).toBe('socket_unusable');
  });

  it('refuses a link to a folder: its creator could redirect it later', async () => {
    const real = path.join(folder, 'real');
    mkdirSync(real, { mode: 0o700 });
    symlinkSync(real, path.join(folder, 'link'));
    expect(await refusal(path.join(folder, 'link', 's'))).toBe('socket_unusable');
  });

  it('replaces a socket that a killed gateway has left, but nothing else', async () => {
    const taken = path.join(folder, 'taken');
    const other = createServer().listen(taken);
    await once(other, 'listening');
    expect(await refusal(taken)).toBe('address_in_use');
    other.close();
    await once(other, 'close');
    const file = path.join(folder, 'file');
    writeFileSync(file, 'precious');
    expect(await refusal(file)).toBe('socket_unusable');
    expect(existsSync(file)).toBe(true);
    expect(await refusal(path.join(folder, 'x'.repeat(120)))).toBe('socket_unusable');
  });
});
