// @ts-check
/** The real `npm start`: JupyterLab, the bridge and a kernel, ended by each signal. Needs the setup to be done. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { checkout } from '../setup/checkout.mjs';
import { Descendants } from './descendants.mjs';

const SET_UP = existsSync(path.join(checkout.stamps, 'extension-link.stamp'));
const WAIT = { timeout: 120_000, interval: 100 };

/** @type {string} */
let state;
/** @type {import('node:child_process').ChildProcess | undefined} */
let child;
beforeEach(async () => {
  state = await mkdtemp(path.join(tmpdir(), 'tpulab-start-'));
});
afterEach(async () => {
  child?.kill('SIGKILL');
  for (const mark of await marks()) await new Descendants(mark).end(2000);
  await rm(state, { recursive: true, force: true, maxRetries: 10 });
});

function marks() {
  return readdir(path.join(state, 'starts')).catch(() => /** @type {string[]} */ ([]));
}

/** Starts, and waits until a kernel of the bridge runs. */
async function startWithKernel() {
  const started = spawn(process.execPath, [path.join(checkout.root, 'scripts/start.mjs'), '--no-browser'], {
    env: { ...process.env, TPULAB_START_STATE: state, TPULAB_STATE_DIR: undefined },
    stdio: ['ignore', 'pipe', 'pipe']
  });
  child = started;
  let output = '';
  for (const stream of [started.stdout, started.stderr])
    stream.on('data', chunk => (output += String(chunk)));
  const ended = new Promise(resolve => started.once('close', code => resolve({ code, output })));
  const address = await vi.waitFor(() => {
    expect(started.exitCode, output).toBeNull();
    const found = /http:\/\/\S+token=\S+/.exec(output)?.[0];
    if (!found) throw new Error(`No address yet: ${output}`);
    return new URL(found);
  }, WAIT);
  const authorization = { Authorization: `token ${address.searchParams.get('token') ?? ''}` };
  const bridge = await vi.waitFor(async () => {
    const answer = await fetch(new URL('/tpulab/bridge', address), { headers: authorization });
    const body = /** @type {{ status: string, url: string, token: string }} */ (await answer.json());
    expect(body.status).toBe('ready');
    return body;
  }, WAIT);
  const headers = { Authorization: `token ${bridge.token}`, 'Content-Type': 'application/json' };
  const body = JSON.stringify({ name: 'tpulab-jax' });
  const kernel = await fetch(new URL('api/kernels', bridge.url), { method: 'POST', headers, body });
  expect(kernel.status).toBe(201);
  const [mark] = await marks();
  if (mark === undefined) throw new Error('The start is not remembered');
  // Jupyter, gateway, keeper and kernel.
  const descendants = new Descendants(mark);
  await vi.waitFor(async () => expect((await descendants.refresh()).length).toBeGreaterThanOrEqual(4), WAIT);
  return { started, ended, address, descendants };
}

describe.runIf(SET_UP)('npm start', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129]
  ])('ended by %s leaves no process behind and asks nothing', async (signal, code) => {
    const { started, ended, address, descendants } = await startWithKernel();
    expect(address.pathname).toBe('/lab/tree/00-getting-started.ipynb');
    started.kill(/** @type {NodeJS.Signals} */ (signal));
    expect(await ended).toMatchObject({ code });
    expect(await descendants.refresh()).toEqual([]);
    expect(await marks()).toEqual([]);
  });

  it('cleans up after an earlier start that was killed', async () => {
    const { started, ended, descendants } = await startWithKernel();
    started.kill('SIGKILL');
    await ended;
    expect((await descendants.refresh()).length).toBeGreaterThanOrEqual(4);
    const next = await startWithKernel();
    expect(await descendants.refresh()).toEqual([]);
    next.started.kill('SIGINT');
    expect(await next.ended).toMatchObject({ code: 130, output: expect.stringContaining('was killed') });
  });

  it('prints no token where others can read it', async () => {
    const { started, ended, address, descendants } = await startWithKernel();
    const token = address.searchParams.get('token') ?? '';
    const { execFileSync } = await import('node:child_process');
    const list = execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
    expect(token.length).toBeGreaterThan(20);
    expect(list).not.toContain(token);
    started.kill('SIGINT');
    await ended;
    expect(await descendants.refresh()).toEqual([]);
  });
});
