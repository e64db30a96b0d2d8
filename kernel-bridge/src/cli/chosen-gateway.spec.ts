import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { PACKAGE_FOLDER } from '../../../machines/src/environments/locations.js';
import type { RunningGatewayFolder } from '../gateway/running-gateways.js';
import { ENTRY } from '../testing/gateway-process.js';
import { chosenStateFolder } from './running-gateway.js';

// Two gateways and four commands, each in its own process.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

function running(stateDir: string): RunningGatewayFolder {
  const record = {
    url: 'http://127.0.0.1:1/',
    pid: 1,
    gatewayId: stateDir,
    startedAt: '2026-01-01T00:00:00Z'
  };
  return { stateDir, record };
}

const choose = (...folders: string[]): Promise<string> =>
  chosenStateFolder(undefined, { XDG_STATE_HOME: '/state' }, () => Promise.resolve(folders.map(running)));

describe('the state folder of a command', () => {
  const own = path.resolve(PACKAGE_FOLDER, '..', '.tpulab', 'state', 'bridge');

  it('is the named folder, whichever gateways run', async () => {
    const all = () => Promise.resolve([running('/a'), running('/b')]);
    expect(await chosenStateFolder('/asked', {}, all)).toBe('/asked');
    expect(await chosenStateFolder(undefined, { TPULAB_STATE_DIR: '/named' }, all)).toBe('/named');
  });

  it("is the running gateway's folder, and the default folder if none runs", async () => {
    expect(await choose('/a')).toBe('/a');
    expect(await choose()).toBe('/state/tpulab');
  });

  it('is the folder of npm start for the command of the same checkout', async () => {
    expect(await choose('/a', own)).toBe(own);
  });

  it('has to be named where several gateways run', async () => {
    await expect(choose('/young', '/old')).rejects.toMatchObject({
      code: 'several_gateways',
      message: expect.stringMatching(/--state-dir \/young [^]*--state-dir \/old /) as string
    });
  });
});

describe('tpulab status', () => {
  let folder: string;
  let env: NodeJS.ProcessEnv;
  const children: ChildProcess[] = [];
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith('TPULAB_'));
    env = { ...Object.fromEntries(own), XDG_STATE_HOME: path.join(folder, 'home') };
  });
  afterEach(async () => {
    for (const child of children.splice(0)) await end(child, 'SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });

  async function serve(name: string): Promise<ChildProcess> {
    const args = ['serve', '--state-dir', path.join(folder, name), '--env-dir', path.join(folder, 'none')];
    const child = spawn(process.execPath, [ENTRY, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    await once(createInterface(child.stdout), 'line');
    return child;
  }

  function status(): Promise<{ pid?: number; error?: { code: string } }> {
    return new Promise(resolve =>
      execFile(process.execPath, [ENTRY, 'status', '--json'], { env }, (_, stdout) =>
        resolve(JSON.parse(stdout) as { pid?: number; error?: { code: string } })
      )
    );
  }

  it('finds the running gateway wherever its state is, and none that has ended or was killed', async () => {
    const first = await serve('first');
    expect(await status()).toMatchObject({ pid: first.pid });
    const second = await serve('second');
    expect(await status()).toMatchObject({ error: { code: 'several_gateways' } });
    await end(first, 'SIGKILL');
    expect(await status()).toMatchObject({ pid: second.pid });
    await end(second, 'SIGTERM');
    expect(await status()).toMatchObject({ error: { code: 'no_gateway' } });
  });
});

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  await ended;
}
