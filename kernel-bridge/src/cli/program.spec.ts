import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ENTRY, GatewayProcess } from '../testing/gateway-process.js';
import { TOKEN } from '../testing/temporary-gateway.js';
import { isLingering } from '../keeper-client/user-scope.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let folder: string;
let stateDir: string;
const gateways: GatewayProcess[] = [];

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'tpl-'));
  stateDir = path.join(folder, 'state');
});

afterEach(async () => {
  await Promise.all(gateways.splice(0).map(gateway => gateway.end('SIGTERM')));
  rmSync(folder, { recursive: true, force: true });
});

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function tpulab(...args: string[]): Promise<Outcome> {
  const env = { ...process.env, TPULAB_TOKEN: '' };
  return new Promise(resolve => {
    execFile(process.execPath, [ENTRY, ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr });
    });
  });
}

async function serve(): Promise<GatewayProcess> {
  const gateway = await GatewayProcess.start(stateDir);
  gateways.push(gateway);
  return gateway;
}

/** One line, a sentence. */
const SENTENCE = /^[A-Z][^\n]+\.\n$/;

describe('tpulab serve', () => {
  it('prints one JSON line with its url and pid, and protects its files from other users', async () => {
    const { ready, child } = await serve();
    expect(ready).toEqual({
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/$/) as string,
      pid: child.pid
    });
    expect(statSync(stateDir).mode & 0o777).toBe(0o700);
    for (const file of ['gateway.json', 'token', 'gateway.log', 'gateway.lock']) {
      expect([file, statSync(path.join(stateDir, file)).mode & 0o777]).toEqual([file, 0o600]);
    }
    expect(readFileSync(path.join(stateDir, 'token'), 'utf8').trim()).toBe(TOKEN);
  });

  it('never logs its token, whatever clients send', async () => {
    const { url } = await serve();
    const headers = { authorization: `token ${TOKEN}`, cookie: `x=${TOKEN}`, 'x-xsrftoken': TOKEN };
    await fetch(`${url}api/kernels?token=${TOKEN}`, { headers });
    await fetch(`${url}api/kernels/x/channels?token=${TOKEN}`, { headers });
    await fetch(`${url}api/kernels/%zz?token=${TOKEN}`, { headers });
    await fetch(`${url}api/kernels?token=${TOKEN}`, { method: 'POST', headers, body: '{' });
    expect(readFileSync(path.join(stateDir, 'gateway.log'), 'utf8')).not.toContain(TOKEN);
  });

  it('refuses a state folder that another gateway serves', async () => {
    const { ready } = await serve();
    const second = await tpulab('serve', '--state-dir', stateDir);
    expect(second.code).toBe(1);
    expect(second.stderr).toMatch(SENTENCE);
    expect(second.stderr).toContain(`pid ${ready.pid}`);
    // The running gateway is not disturbed.
    expect((await tpulab('status', '--state-dir', stateDir)).code).toBe(0);
  });

  it('takes over from a killed gateway', async () => {
    await (await serve()).end('SIGKILL');
    const { ready } = await serve();
    const { stdout } = await tpulab('status', '--state-dir', stateDir, '--json');
    const lingering = await isLingering();
    expect(JSON.parse(stdout)).toMatchObject({ pid: ready.pid, status: 'ok', lingering, kernels: [] });
  });

  it('reports that the port is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const outcome = await tpulab('serve', '--state-dir', stateDir, '--port', String(port), '--json');
    other.close();
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toMatch(SENTENCE);
    expect(JSON.parse(outcome.stdout)).toMatchObject({ error: { code: 'address_in_use' } });
  });

  it.each([
    ['an invalid port', ['--port', '70000']],
    ['an origin with a path', ['--allow-origin', 'http://a/b']],
    ['an unknown log level', ['--log-level', 'loud']],
    ['an unknown option', ['--nope']]
  ])('refuses %s', async (_what, args) => {
    const outcome = await tpulab('serve', '--state-dir', stateDir, ...args);
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toMatch(/^error: /);
  });

  it('reports that the state folder or the root folder cannot be used', async () => {
    writeFileSync(path.join(folder, 'file'), '');
    const state = await tpulab('serve', '--state-dir', path.join(folder, 'file'), '--json');
    expect(state.stderr).toMatch(SENTENCE);
    expect(JSON.parse(state.stdout)).toMatchObject({ error: { code: 'state_dir_unusable' } });
    const root = await tpulab(
      'serve',
      '--state-dir',
      stateDir,
      '--root-dir',
      path.join(folder, 'none'),
      '--json'
    );
    expect(JSON.parse(root.stdout)).toMatchObject({ error: { code: 'root_dir_missing' } });
  });

  it.skipIf(process.getuid?.() === 0)('reports that the state folder is not writable', async () => {
    chmodSync(folder, 0o500);
    const outcome = await tpulab('serve', '--state-dir', stateDir);
    chmodSync(folder, 0o700);
    expect(outcome.stderr).toMatch(SENTENCE);
  });
});

describe('tpulab status and stop', () => {
  it('fail with one sentence when no gateway runs', async () => {
    for (const command of ['status', 'stop']) {
      const outcome = await tpulab(command, '--state-dir', stateDir, '--json');
      expect([outcome.code, JSON.parse(outcome.stdout)]).toMatchObject([
        1,
        { error: { code: 'no_gateway' } }
      ]);
      expect(outcome.stderr).toMatch(SENTENCE);
    }
  });

  it('fail too when a killed gateway has left its files', async () => {
    await (await serve()).end('SIGKILL');
    expect((await tpulab('status', '--state-dir', stateDir)).code).toBe(1);
  });

  it('stop ends the gateway and reports the state of the kernels', async () => {
    const { child } = await serve();
    const outcome = await tpulab('stop', '--state-dir', stateDir, '--kernels', '--json');
    expect(JSON.parse(outcome.stdout)).toEqual({ pid: child.pid, kernelsShutDown: 0, kernelsLeft: 0 });
    await vi.waitUntil(() => child.exitCode !== null, { timeout: 60_000 });
    expect(child.exitCode).toBe(0);
  });
});

describe('help', () => {
  it.each([[], ['serve'], ['status'], ['stop'], ['env'], ['env', 'list']])(
    'tpulab %s %s --help explains itself',
    async (...args) => {
      const outcome = await tpulab(...args, '--help');
      expect(outcome.code).toBe(0);
      expect(outcome.stdout).toMatch(/^Usage: tpulab/);
    }
  );
});

describe('a command', () => {
  const shell = promisify(execFile);
  const program = `"${process.execPath}" "${ENTRY}"`;

  it('ends like other programs when the reader of its output ends, and reports a full disk', async () => {
    const piped = await shell('bash', ['-c', `${program} --help | true; echo \${PIPESTATUS[0]}`]);
    expect(piped).toEqual({ stdout: '141\n', stderr: '' });
    const full = await shell('bash', ['-c', `${program} --help > /dev/full; echo $?`]);
    expect(full.stdout).toBe('1\n');
    expect(full.stderr).toMatch(SENTENCE);
  });

  it('reports that its folder was deleted', async () => {
    const { stdout } = await shell(
      'bash',
      ['-c', `mkdir lost; cd lost; rmdir ../lost; ${program} serve 2>&1; true`],
      {
        cwd: folder
      }
    );
    expect(stdout).toMatch(/^The current folder has been deleted/);
  });
});
