import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ENTRY } from '../testing/gateway-process.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const TOKEN = 'a-token-of-the-serve-specs';
let folder: string;
let stateDir: string;
const running: ChildProcess[] = [];

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'tpl-'));
  stateDir = path.join(folder, 'state');
});

afterEach(async () => {
  for (const child of running.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }
  rmSync(folder, { recursive: true, force: true });
});

/** The environment without the variables of the user who runs the specs. */
function environment(further: Record<string, string>): Record<string, string | undefined> {
  const own = Object.entries(process.env).filter(([name]) => !/^(TPULAB_|npm_)/.test(name));
  return { ...Object.fromEntries(own), XDG_STATE_HOME: folder, ...further };
}

interface Served {
  readonly child: ChildProcess;
  readonly url: string;
  readonly stderr: () => string;
}

async function serve(args: readonly string[], env: Record<string, string> = {}): Promise<Served> {
  const all = ['serve', '--state-dir', stateDir, '--env-dir', path.join(folder, 'none'), ...args];
  const child = spawn(process.execPath, [ENTRY, ...all], {
    env: environment(env),
    stdio: ['ignore', 'pipe', 'pipe']
  });
  running.push(child);
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const ended = once(child, 'exit').then(() => {
    throw new Error(`it ended: ${stderr}`);
  });
  const [line] = (await Promise.race([once(createInterface(child.stdout), 'line'), ended])) as [string];
  ended.catch(() => undefined);
  return { child, url: (JSON.parse(line) as { url: string }).url, stderr: () => stderr };
}

function tpulab(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise(resolve => {
    execFile(process.execPath, [ENTRY, ...args], { env: environment({}) }, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr });
    });
  });
}

async function status(url: string, token: string, target = 'api/kernels'): Promise<number> {
  return (await fetch(new URL(target, url), { headers: { authorization: `token ${token}` } })).status;
}

function written(name: string, text: string): string {
  const file = path.join(folder, name);
  writeFileSync(file, text, { mode: 0o600 });
  return file;
}

describe('tpulab serve after a failure', () => {
  it('logs the error with its stack in gateway.log, and the next gateway serves', async () => {
    // An uncaught error in our own code.
    const bug = 'process.on("SIGUSR2", () => { throw new Error("a fault of ours") })';
    const { child } = await serve([], {
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(bug)}`
    });
    const ended = once(child, 'exit');
    const log = path.join(stateDir, 'gateway.log');
    const faults = () => readFileSync(log, 'utf8').split('an unexpected error was caught').length - 1;
    // A gateway survives single faults; ten per minute end it.
    for (let fault = 1; fault <= 10; fault++) {
      child.kill('SIGUSR2');
      await vi.waitFor(() => expect(faults()).toBe(fault), 60_000);
    }
    expect(await ended).toEqual([1, null]);
    const lines = readFileSync(log, 'utf8').trim().split('\n');
    const fatal = lines.map(line => JSON.parse(line) as { level: number }).find(({ level }) => level === 60);
    expect(fatal).toMatchObject({
      level: 60,
      err: { message: 'a fault of ours', stack: expect.stringContaining('at ') as string }
    });
    const next = await serve([]);
    expect(await status(next.url, TOKEN)).toBe(403);
  });
});

describe('tpulab serve --config', () => {
  it('serves with the settings of the file, a variable above it and a flag above both', async () => {
    const file = written(
      'config.toml',
      `[ServerApp]\nbase_url = "/from-file"\nallow_origin = "http://from-file"\n[IdentityProvider]\ntoken = "${TOKEN}-file"\n`
    );
    const { url } = await serve(['--config', file, '--base-url', '/from-flag'], { TPULAB_TOKEN: TOKEN });
    expect(new URL(url).pathname).toBe('/from-flag/');
    expect(await status(url, TOKEN)).toBe(200);
    expect(await status(url, `${TOKEN}-file`)).toBe(403);
    const answer = await fetch(new URL('api', url), {
      headers: { authorization: `token ${TOKEN}`, origin: 'http://from-file' }
    });
    expect(answer.headers.get('access-control-allow-origin')).toBe('http://from-file');
  });

  it('does not start with a file that has a mistake, and leaves nothing behind', async () => {
    const file = written('config.json', '{"Journal": {"total_byte": 1}}');
    const outcome = await tpulab('serve', '--state-dir', stateDir, '--config', file, '--json');
    expect(outcome.code).toBe(1);
    expect(JSON.parse(outcome.stdout)).toMatchObject({ error: { code: 'config_unknown_setting' } });
    expect(outcome.stderr).toContain('Journal.total_bytes');
    expect(existsSync(stateDir)).toBe(false);
  });

  it('--print-config prints the resulting settings with their sources, and starts nothing', async () => {
    const file = written('config.toml', '[ServerApp]\nport = 8890\n');
    const outcome = await tpulab('serve', '--state-dir', stateDir, '--config', file, '--print-config');
    expect(outcome.code).toBe(0);
    expect(outcome.stdout).toMatch(/\(file\)\nport = 8890\n/);
    expect(existsSync(stateDir)).toBe(false);
    const again = await tpulab('serve', '--config', written('again.toml', outcome.stdout), '--print-config');
    expect(again.stdout).toContain('port = 8890');
  });
});

describe('the token of a server', () => {
  it('can come from a file, which must be for this user alone', async () => {
    const file = written('token', `${TOKEN}\n`);
    const { url } = await serve(['--token-file', file]);
    expect(await status(url, TOKEN)).toBe(200);
    chmodSync(file, 0o644);
    const open = await tpulab(
      'serve',
      '--state-dir',
      path.join(folder, 'other'),
      '--token-file',
      file,
      '--json'
    );
    expect(JSON.parse(open.stdout)).toMatchObject({ error: { code: 'config_invalid' } });
    expect(open.stdout + open.stderr).not.toContain(TOKEN);
  });

  it.each(['short', 'fifteen-letters'])('%s is too short', async token => {
    const outcome = await tpulab('serve', '--state-dir', stateDir, '--token', token, '--json');
    expect(JSON.parse(outcome.stdout)).toMatchObject({ error: { code: 'token_unusable' } });
  });

  it('given as a flag causes a warning that does not contain the token', async () => {
    const { url, stderr } = await serve(['--token', TOKEN]);
    expect(await status(url, TOKEN)).toBe(200);
    expect(stderr()).toContain('Other users can see a token');
    expect(stderr()).not.toContain(TOKEN);
  });

  // npm's own process and its shell would show the flag.
  it('given as a flag is refused under npx, with safe alternatives', async () => {
    const started = serve(['--token', TOKEN], { npm_command: 'exec' });
    await expect(started).rejects.toThrow(/With npx.*TPULAB_TOKEN or --token-file/);
    await expect(started).rejects.not.toThrow(TOKEN);
    const { url } = await serve([], { npm_command: 'exec', TPULAB_TOKEN: TOKEN });
    expect(await status(url, TOKEN)).toBe(200);
  });

  it.skipIf(process.platform !== 'linux')('given as a flag is not in the list of processes', async () => {
    const { child } = await serve(['--token', TOKEN]);
    const shown = readFileSync(`/proc/${child.pid}/cmdline`, 'utf8');
    expect(shown).toContain('tpulab serve');
    expect(shown).not.toContain(TOKEN);
  });

  it('is random and long when none is given', async () => {
    await serve([]);
    expect(readFileSync(path.join(stateDir, 'token'), 'utf8')).toMatch(/^[0-9a-f]{48}\n$/);
  });
});

describe('tpulab serve --unix-socket', () => {
  it('listens in the state folder, and status and stop find it there', async () => {
    const { url, child } = await serve(['--unix-socket'], { TPULAB_TOKEN: TOKEN });
    expect(url).toMatch(/^http\+unix:\/\//);
    expect(statSync(path.join(stateDir, 'run', 'gateway.sock')).mode & 0o777).toBe(0o600);
    const shown = await tpulab('status', '--state-dir', stateDir, '--json');
    expect(JSON.parse(shown.stdout)).toMatchObject({ url, pid: child.pid, status: 'ok' });
    expect((await tpulab('stop', '--state-dir', stateDir, '--kernels')).code).toBe(0);
    expect(existsSync(path.join(stateDir, 'run', 'gateway.sock'))).toBe(false);
  });

  // In a container without an init, no process reaps the gateway: its pid and its name stay.
  it.skipIf(process.platform !== 'linux')(
    'stop does not wait for a server that has become a zombie',
    async () => {
      const args = [ENTRY, 'serve', '--unix-socket', '--state-dir', stateDir, '--env-dir', folder];
      const words = [process.execPath, ...args].map(word => `'${word}'`).join(' ');
      const parent = spawn('sh', ['-c', `${words} & exec sleep 600`], {
        env: environment({}),
        stdio: ['ignore', 'pipe', 'ignore']
      });
      running.push(parent);
      await once(createInterface(parent.stdout), 'line');
      const shown = await tpulab('status', '--state-dir', stateDir, '--json');
      const { pid } = JSON.parse(shown.stdout) as { pid: number };
      expect(await tpulab('stop', '--state-dir', stateDir)).toMatchObject({ code: 0 });
      expect(readFileSync(`/proc/${pid}/stat`, 'utf8')).toMatch(/\) Z /);
      expect((await tpulab('stop', '--state-dir', stateDir, '--json')).stdout).toContain('no_gateway');
    }
  );

  it('replaces the socket of a killed gateway', async () => {
    const { child } = await serve(['--unix-socket']);
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    expect((await serve(['--unix-socket'])).url).toMatch(/^http\+unix:/);
  });

  it('refuses a folder that others can enter', async () => {
    const open = path.join(folder, 'open');
    mkdirSync(open);
    chmodSync(open, 0o755);
    const outcome = await tpulab(
      'serve',
      '--state-dir',
      stateDir,
      '--unix-socket',
      path.join(open, 's'),
      '--json'
    );
    expect(JSON.parse(outcome.stdout)).toMatchObject({ error: { code: 'socket_unusable' } });
  });
});

describe('tpulab token', () => {
  it('makes, lists and revokes tokens, which a running gateway accepts until their revocation', async () => {
    const { url } = await serve([]);
    const made = await tpulab(
      'token',
      'create',
      'laptop',
      '--expires',
      '30d',
      '--state-dir',
      stateDir,
      '--json'
    );
    const { token, expiresAt } = JSON.parse(made.stdout) as { token: string; expiresAt: string };
    expect(await status(url, token)).toBe(200);
    const listed = await tpulab('token', 'list', '--state-dir', stateDir, '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject({
      tokens: [{ name: 'laptop', expiresAt, expired: false }]
    });
    expect(listed.stdout).not.toContain(token);
    const wrong = await tpulab('token', 'revoke', 'labtop', '--state-dir', stateDir, '--json');
    expect(JSON.parse(wrong.stdout)).toMatchObject({ error: { code: 'token_unknown' } });
    expect(wrong.stderr).toContain('laptop');
    expect((await tpulab('token', 'revoke', 'laptop', '--state-dir', stateDir)).code).toBe(0);
    expect(await status(url, token)).toBe(403);
    const log = readFileSync(path.join(stateDir, 'gateway.log'), 'utf8');
    expect(log).not.toContain(token);
  });

  it('prints the token alone, so that a script can read it', async () => {
    const made = await tpulab('token', 'create', 'script', '--state-dir', stateDir);
    expect(made.stdout).toMatch(/^tpl_[\w-]{43}\n$/);
  });
});
