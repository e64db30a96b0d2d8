// @ts-check
/**
 * The installed packages, used as people use them: a virtual environment with nothing but the wheels, on a PATH without Node; and the npm
 * package. Only uv's cache of downloads is this machine's.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import { checkout } from '../setup/checkout.mjs';
import { lockOf, pythonIn, UV_ENV } from '../setup/python-environment.mjs';
import { run, runOrExplain } from '../setup/run-command.mjs';
import { makeBridgeBundle } from './bridge-bundle.mjs';
import { makeLabWheel } from './lab-wheel.mjs';

const SET_UP = existsSync(checkout.uv) && existsSync(path.join(checkout.labextension, 'package.json'));
const WAIT = { timeout: 200_000, interval: 200 };
// Two environments are installed and a Lab is started in one test.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

/** @type {string} */
let folder;
/** @type {string} */
let cache;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-packages-'));
  if (!SET_UP) return;
  cache = (await run(checkout.uv, ['cache', 'dir'])).stdout[0] ?? '';
  await mkdir(inFolder('site'));
  // Replaces the output of `npm run docs`, which takes a minute.
  await writeFile(
    inFolder('site', 'index.html'),
    '<title>TPULab</title><a href="/tpulab-docs-base/connect.html">'
  );
  await makeBridgeBundle(inFolder('bridge'), { documentation: inFolder('site') });
  await mkdir(inFolder('wheels'));
  await makeLabWheel(inFolder('bridge'), inFolder('wheels'));
});
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

/** @param {string[]} parts */
const inFolder = (...parts) => path.join(folder, ...parts);

/** The PATH of a plain machine: no Node, no npm, no uv. */
async function plainPath() {
  const bin = inFolder('bin');
  await mkdir(bin, { recursive: true });
  for (const name of [
    'sh',
    'env',
    'ls',
    'cat',
    'id',
    'uname',
    'ps',
    'tar',
    'gzip',
    'sleep',
    'ldd',
    'getconf'
  ]) {
    const real = ['/usr/bin', '/bin'].map(place => path.join(place, name)).find(file => existsSync(file));
    if (real !== undefined) await symlink(real, path.join(bin, name)).catch(() => undefined);
  }
  return bin;
}

/** This machine's access to a package index: proxies, certificates, uv's settings. */
function networkVariables() {
  return Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      value !== undefined && /^(\w+_proxy|SSL_CERT_(FILE|DIR)|UV_(?!CACHE)\w+)$/i.test(name)
        ? [[name, value]]
        : []
    )
  );
}

/** @param {string} file */
async function digestOf(file) {
  return createHash('sha256')
    .update(await readFile(file))
    .digest('hex');
}

describe.runIf(SET_UP)('the packages', () => {
  it('are the same when they are made again', async () => {
    await makeBridgeBundle(inFolder('again', 'bridge'), { documentation: inFolder('site') });
    await makeLabWheel(inFolder('again', 'bridge'), inFolder('again'));
    const [wheel = ''] = await readdir(inFolder('wheels'));
    expect(await digestOf(inFolder('again', wheel))).toBe(await digestOf(inFolder('wheels', wheel)));
  });

  it(
    'run JupyterLab with the bridge and a kernel in an empty environment without Node on PATH',
    { tags: ['long'] },
    async () => {
      const venv = inFolder('venv');
      const [wheel = ''] = await readdir(inFolder('wheels'));
      await runOrExplain('venv', checkout.uv, ['venv', '--python', pythonIn(checkout.tools), venv], {
        env: UV_ENV
      });
      await runOrExplain(
        'installing',
        checkout.uv,
        [
          ...['pip', 'install', '--python', pythonIn(venv), inFolder('wheels', wheel)],
          ...['--constraints', lockOf('lab'), '--constraints', lockOf('host')]
        ],
        { env: UV_ENV, timeoutMs: 280_000 }
      );
      const home = inFolder('home');
      await mkdir(home);
      const env = {
        HOME: home,
        // The environment is not activated: the parts of the installation are found without PATH.
        PATH: await plainPath(),
        LANG: 'C.UTF-8',
        ...networkVariables(),
        UV_CACHE_DIR: cache
      };
      expect(existsSync(path.join(venv, 'bin', 'node'))).toBe(false);
      const lab = await startLab(path.join(venv, 'bin', 'jupyter'), env, home);
      try {
        const bridge = await lab.bridge();
        const headers = { Authorization: `token ${bridge.token}`, 'Content-Type': 'application/json' };
        // Like the launcher: with the uv that was installed with the wheel.
        const creation = new URL('bridge/v1/environments/jax/creation', bridge.url);
        const response = await fetch(creation, { method: 'POST', headers });
        expect(response.status, await response.text()).toBe(202);
        const made = await vi.waitFor(async () => {
          const now = await (await fetch(creation, { headers })).json();
          expect(now.state, JSON.stringify(now)).not.toBe('running');
          return now;
        }, WAIT);
        expect(made).toMatchObject({ state: 'done', error: null });
        expect(made.stages.map((/** @type {{ title: string }} */ { title }) => title)).toContain(
          'installing the recipes'
        );
        const lessons = await fetch(new URL('bridge/v1/examples', bridge.url), { method: 'POST', headers });
        expect(await lessons.json()).toMatchObject({ folder: 'tpulab-lessons', kept: [] });
        expect(await readdir(path.join(home, 'tpulab-lessons'))).toContain('00-getting-started.ipynb');
        // The command finds the gateway of the Jupyter server, and gets the lessons too.
        const tpulab = path.join(venv, 'bin', 'tpulab');
        const status = await ended(spawn(tpulab, ['status', '--json'], { env, cwd: home }));
        expect(JSON.parse(status.output)).toMatchObject({ url: bridge.url });
        const copied = await ended(spawn(tpulab, ['examples', 'mine', '--json'], { env, cwd: home }));
        expect(JSON.parse(copied.output)).toMatchObject({ folder: path.join(home, 'mine'), kept: [] });

        const body = JSON.stringify({ name: 'tpulab-jax' });
        const answer = await fetch(new URL('api/kernels', bridge.url), { method: 'POST', headers, body });
        const { id } = /** @type {{ id: string }} */ (await answer.json());
        expect(answer.status).toBe(201);
        const code =
          'import jax.numpy as jnp, tpulab, sys; print("sum", int(jnp.arange(5).sum()), sys.prefix)';
        expect(await execute(bridge, id, code)).toContain(`sum 10 ${home}/.local/share/tpulab/envs/jax`);
        // A kernel of JupyterLab's own finds the package too.
        const own = await run(path.join(venv, 'bin', 'python'), ['-c', 'import tpulab; print(tpulab.steps)']);
        expect(own.stdout.join('\n')).toContain('function');
        await expectDocumentation(bridge.url);
        // The page finds the extension in JupyterLab's search path.
        const page = await (await fetch(lab.url('lab'), { headers: lab.headers })).text();
        expect(page).toContain('@tpulab/labextension');
      } finally {
        await lab.end();
      }
    }
  );

  it('show a page in an empty folder with an empty home, by npx as documented', async () => {
    const place = inFolder('npm');
    await mkdir(place);
    await runOrExplain(
      'packing',
      'npm',
      ['pack', '--silent', '--pack-destination', place, inFolder('bridge')],
      {
        cwd: place
      }
    );
    const tarball = (await readdir(place)).find(name => name.endsWith('.tgz')) ?? '';
    await runOrExplain('npm', 'npm', ['install', '--offline', '--no-audit', path.join(place, tarball)], {
      cwd: place
    });
    const { dependencies } = JSON.parse(await readFile(path.join(place, 'package.json'), 'utf8'));
    expect(Object.keys(dependencies)).toEqual(['tpulab']);
    const [work, home] = [path.join(place, 'empty'), inFolder('home-of-npx')];
    for (const made of [work, home]) await mkdir(made);
    const child = spawn(
      'npx',
      ['--yes', '--offline', `--package=${path.join(place, tarball)}`, 'tpulab', '--no-browser', '--json'],
      {
        cwd: work,
        env: { PATH: process.env['PATH'], HOME: home, LANG: 'C.UTF-8' },
        detached: true
      }
    );
    let output = '';
    child.stdout.on('data', chunk => (output += String(chunk)));
    try {
      const ready = await vi.waitFor(() => JSON.parse(output), WAIT);
      expect(ready.url).toContain('/session/#code=');
      expect(await (await fetch(ready.url)).text()).toContain('<base href="/session/">');
      await expectDocumentation(ready.url);
      const state = path.join(home, '.local', 'state', 'tpulab');
      const token = (await readFile(path.join(state, 'token'), 'utf8')).trim();
      const headers = { Authorization: `token ${token}` };
      const answer = await fetch(new URL('/bridge/v1/environments', ready.url), { headers });
      const names = /** @type {{ name: string }[]} */ (await answer.json()).map(({ name }) => name);
      expect(names).toContain('jax');
    } finally {
      const hasExited = ended(child);
      process.kill(-(child.pid ?? 0), 'SIGTERM');
      await hasExited;
    }
  });
});

/** Like the Help menu. @param {string} server */
async function expectDocumentation(server) {
  const answer = await fetch(new URL('/docs/', server));
  expect([answer.status, await answer.text()]).toEqual([
    200,
    '<title>TPULab</title><a href="/docs/connect.html">'
  ]);
}

/**
 * @param {string} jupyter
 * @param {Record<string, string>} env
 * @param {string} home
 */
async function startLab(jupyter, env, home) {
  const token = 'a-token-for-packages-spec';
  const child = spawn(
    jupyter,
    [
      'lab',
      '--no-browser',
      '--allow-root',
      '--ServerApp.ip=127.0.0.1',
      '--ServerApp.port=0',
      `--IdentityProvider.token=${token}`
    ],
    { env: { ...env, JUPYTER_RUNTIME_DIR: path.join(home, 'runtime') }, cwd: home }
  );
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (output += String(chunk)));
  const base = await vi.waitFor(() => {
    expect(child.exitCode, output).toBeNull();
    const found = /http:\/\/127\.0\.0\.1:\d+\//.exec(output)?.[0];
    if (!found) throw new Error(`no address yet: ${output}`);
    return found;
  }, WAIT);
  const headers = { Authorization: `token ${token}` };
  return {
    headers,
    /** @param {string} target */
    url: target => new URL(target, base),
    bridge: () =>
      vi.waitFor(async () => {
        const answer = await fetch(new URL('tpulab/bridge', base), { headers });
        const body = /** @type {{ status: string, url: string, token: string, message: string | null }} */ (
          await answer.json()
        );
        expect(body.status, `${body.message ?? ''}\n${output}`).toBe('ready');
        return body;
      }, WAIT),
    end: async () => {
      const hasExited = ended(child);
      child.kill('SIGTERM');
      await hasExited;
    }
  };
}

/**
 * What a kernel prints while it executes `code`.
 *
 * @param {{ url: string, token: string }} bridge
 * @param {string} kernelId
 * @param {string} code
 * @returns {Promise<string>}
 */
function execute(bridge, kernelId, code) {
  const url = new URL(`api/kernels/${kernelId}/channels`, bridge.url.replace(/^http/, 'ws'));
  url.searchParams.set('token', bridge.token);
  const socket = new WebSocket(url);
  const header = {
    msg_id: 'one',
    msg_type: 'execute_request',
    session: 's',
    username: '',
    version: '5.3',
    date: ''
  };
  const content = { code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false };
  return new Promise((resolve, reject) => {
    let printed = '';
    /** @type {Set<string>} */
    const awaited = new Set(['reply', 'idle']);
    socket.on('error', reject);
    socket.on('open', () =>
      socket.send(
        JSON.stringify({ channel: 'shell', header, parent_header: {}, metadata: {}, content, buffers: [] })
      )
    );
    socket.on('message', data => {
      const message = JSON.parse(String(data));
      if (message.parent_header?.msg_id !== 'one') return;
      if (message.msg_type === 'stream') printed += message.content.text;
      if (message.msg_type === 'error') printed += message.content.traceback.join('\n');
      // A separate channel: the reply may overtake the output, and the idle status the reply.
      if (message.msg_type === 'execute_reply') awaited.delete('reply');
      if (message.msg_type === 'status' && message.content.execution_state === 'idle') awaited.delete('idle');
      if (awaited.size === 0) {
        socket.close();
        resolve(printed);
      }
    });
  });
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<{ code: number | null, output: string }>}
 */
function ended(child) {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', chunk => (output += String(chunk)));
  return new Promise(resolve => {
    if (child.exitCode !== null || child.signalCode !== null) resolve({ code: child.exitCode, output });
    else child.once('close', code => resolve({ code, output }));
  });
}
