/** Checks of notebooks over HTTP. A program that prints recorded output replaces the Python with the TPU compiler. */
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { NotebookCheck } from '@tpulab/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Rights } from '../http/rights.js';
import { TokenStore } from '../http/token-store.js';
import { EnvironmentCatalog } from '../../../machines/src/environments/index.js';
import {
  describeTiny,
  type TinyFolders,
  tinyFolders
} from '../../../machines/src/environments/testing/tiny-definitions.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';
import { NotebookChecks } from './notebook-checks.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

/** `tpulab check small.ipynb --chips v5e-8,v6e-8,v5p-8,7x-8 --json`, JAX 0.10.2, libtpu 0.0.50. */
const RECORDED = path.join(import.meta.dirname, '../../../tests/preflight/report.json');
const CHIPS = 'v5e-8, v6e-8';
const WAIT = { timeout: 60_000 };

const notebook = (source: string, outputs: readonly object[] = []): string =>
  JSON.stringify({
    cells: [
      { id: 'one', cell_type: 'code', source, outputs, metadata: {}, execution_count: null },
      { id: 'words', cell_type: 'markdown', source: 'Words', metadata: {} },
      { id: 'two', cell_type: 'code', source: '', outputs: [], metadata: {}, execution_count: null }
    ],
    metadata: { kernelspec: { name: 'python3', display_name: 'Python 3' } },
    nbformat: 4,
    nbformat_minor: 5
  });

describe('checks of notebooks', () => {
  let folder: string;
  let bridge: TemporaryGateway;
  const at = (name: string): string => path.join(folder, name);

  /** The body of the program; it runs in the notebook's folder. */
  const program = async (body: string): Promise<void> => {
    await writeFile(at('python'), `#!/bin/sh\n${body}\n`);
    await chmod(at('python'), 0o755);
  };
  const request = async (
    method: string,
    name = 'a%20b.ipynb',
    options: { body?: unknown; token?: string } = {}
  ): Promise<{ status: number; body: NotebookCheck & { code?: string; message?: string } }> =>
    (await bridge.rest(method, `/bridge/v1/checks/${name}`, options)) as never;
  const start = (name?: string): ReturnType<typeof request> =>
    request('POST', name, { body: { chips: CHIPS } });
  const ended = (): Promise<NotebookCheck> =>
    vi.waitFor(async () => {
      const { body } = await request('GET');
      expect(body.state).not.toBe('running');
      return body;
    }, WAIT);
  const save = (text: string, name = 'a b.ipynb'): Promise<void> =>
    writeFile(path.join(bridge.folder, name), text);

  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tpl-checks-'));
    bridge = await TemporaryGateway.start({ env: { ...process.env, TPULAB_AOT_PYTHON: at('python') } });
    await bridge.gateway.ready;
    await save(notebook('x = 1'));
    await program(`tr -d '\\n' < '${RECORDED}'; echo`);
  });
  afterEach(async () => {
    await bridge[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  it('have no report of their own while they run', async () => {
    await start();
    const answers: Promise<NotebookCheck>[] = [];
    await vi.waitFor(async () => {
      answers.push(...Array.from({ length: 20 }, async () => (await request('GET')).body));
      expect((await answers.at(-1))?.state).toBe('done');
    }, WAIT);
    for (const { state, last } of await Promise.all(answers)) expect(last !== null).toBe(state === 'done');
  });

  it('run tpulab check of the saved file, are followed, and store the report', async () => {
    await program(
      `printf '%s\\n' "$@" > '${at('arguments')}'; env > '${at('env')}'
       echo 'compiling train_step for v5e-8 (3 of 4)' >&2
       while ! test -e '${at('go')}'; do sleep 0.05; done
       tr -d '\\n' < '${RECORDED}'; echo; exit 1`
    );
    expect((await request('GET')).body).toMatchObject({
      state: 'idle',
      last: null,
      compiler: { state: 'ready' }
    });
    expect((await start()).status).toBe(202);
    await vi.waitFor(
      async () =>
        expect((await request('GET')).body).toMatchObject({
          ...{ state: 'running', detail: 'compiling train_step for v5e-8', fraction: 0.75 }
        }),
      WAIT
    );
    await writeFile(at('go'), '');
    const { state, last } = await ended();
    expect({ state, last }).toMatchObject({
      state: 'done',
      last: { chips: CHIPS, isCurrent: true, cellIds: ['one', 'two'], report: { libtpu: '0.0.50' } }
    });
    expect(last?.report.programs.at(-1)?.results['v6e-8']?.fits).toBe('tight');
    // The report names the file's folder; the answer does not.
    expect(last?.report).not.toHaveProperty('file');
    expect((await readFile(at('arguments'), 'utf8')).trim().split('\n')).toEqual([
      ...['-m', 'tpulab.check', '--chips', CHIPS, '--limit', '600', '--json', '--python', at('python')],
      path.join(bridge.folder, 'a b.ipynb')
    ]);
    expect(await readFile(at('env'), 'utf8')).not.toContain('TPULAB_TOKEN=');
  });

  it('compile for a machine that is being set up, and return the whole report', async () => {
    await program(`printf '%s\\n' "$@" > '${at('arguments')}'; tr -d '\\n' < '${RECORDED}'; echo`);
    await request('POST', undefined, { body: { chips: CHIPS, saveCompiled: true } });
    await ended();
    expect(await readFile(at('arguments'), 'utf8')).toContain('--json\n--save-compiled\n--python');
    const { body } = await bridge.rest('GET', '/bridge/v1/check-reports/a%20b.ipynb');
    expect(body).toEqual(JSON.parse(await readFile(RECORDED, 'utf8')));
    expect((await bridge.rest('GET', '/bridge/v1/check-reports/none.ipynb')).status).toBe(404);
  });

  it("write the user's price list, and put its prices into the report", async () => {
    const own = at('config/tpulab/prices.toml');
    await program(`tr -d '\\n' < '${RECORDED}' | sed 's|/home/me/.config/tpulab/prices.toml|${own}|'; echo`);
    expect((await request('PUT', undefined, { body: { chipHourUsd: {} } })).status).toBe(404);
    await start();
    const { prices: _, ...before } = (await ended()).last!.report;
    const put = { body: { chipHourUsd: { v5e: 2.4, '7x': 12, v4: 3.22 } } };
    const after = (await request('PUT', undefined, put)).body.last!.report;
    expect(after).toMatchObject(before);
    expect((await request('GET')).body.last?.report).toEqual(after);
    const today = new Date().toISOString().slice(0, 10);
    expect(after.prices).toMatchObject({ date: today, ...put.body });
    expect(await readFile(own, 'utf8')).toBe(
      `date = ${today}\n\n[chip_hour_usd]\n7x = 12.0000\nv4 = 3.2200\nv5e = 2.4000\n`
    );
    // The user's comments are preserved.
    await writeFile(own, `# by contract\n${await readFile(own, 'utf8')}`);
    await request('PUT', undefined, put);
    expect(await readFile(own, 'utf8')).toMatch(/^# by contract\ndate = /);
    expect((await request('PUT', undefined, { body: { chipHourUsd: { 'v5e\nx': 1 } } })).status).toBe(400);
    expect((await request('PUT', undefined, { body: { chipHourUsd: { v5e: -1 } } })).status).toBe(400);
  });

  it('do not change a price list that tpulab.toml names', async () => {
    await program(`sed 's|"/home/me/.config/tpulab/prices.toml"|null|' '${RECORDED}' | tr -d '\\n'; echo`);
    await start();
    await ended();
    const { status, body } = await request('PUT', undefined, { body: { chipHourUsd: {} } });
    expect({ status, message: body.message }).toMatchObject({
      ...{ status: 400, message: expect.stringContaining('tpulab.toml') as string }
    });
  });

  it('stay current while only outputs change, and belong to the checked code', async () => {
    await start();
    await ended();
    await save(notebook('x = 1', [{ output_type: 'stream', name: 'stdout', text: '1' }]));
    expect((await request('GET')).body.last?.isCurrent).toBe(true);
    await save(notebook('x = 2'));
    expect((await request('GET')).body.last?.isCurrent).toBe(false);
  });

  it('run one at a time, and end with all their processes when they are stopped', async () => {
    await save(notebook('y = 1'), 'other.ipynb');
    await program(`sleep 600 & echo $! > '${at('child')}'; wait`);
    await start();
    await vi.waitFor(() => expect(existsSync(at('child'))).toBe(true), WAIT);
    const second = await start('other.ipynb');
    expect(second).toMatchObject({ status: 409, body: { code: 'check_busy' } });
    expect(second.body.message).toContain('a b.ipynb');
    expect((await request('DELETE')).body).toMatchObject({ state: 'cancelled', error: null, last: null });
    const child = Number(await readFile(at('child'), 'utf8'));
    await vi.waitFor(() => expect(() => process.kill(child, 0)).toThrow('ESRCH'), WAIT);
    expect((await start('other.ipynb')).status).toBe(202);
    await request('DELETE', 'other.ipynb');
  });

  it.each([
    [
      'its own words',
      `echo '{"error": {"code": "x", "message": "v9 is no machine."}}'; exit 2`,
      'v9 is no machine.'
    ],
    ['its last line', 'echo "No module named tpulab" >&2; exit 1', 'No module named tpulab'],
    ['another format', `echo '{"format": 2}'`, 'The check gave no report']
  ])('report a check that fails: %s', async (_, body, message) => {
    await program(body);
    await start();
    const { state, error } = await ended();
    expect(state).toBe('failed');
    expect(error?.message).toContain(message);
  });

  it('refuse a file that is not a notebook, and invalid chips', async () => {
    await save('{}', 'a b.ipynb');
    expect((await start()).status).toBe(400);
    expect((await request('GET', 'none.ipynb')).status).toBe(200);
    expect((await start('none.ipynb')).status).toBe(404);
    expect((await start('..%2Fb.ipynb')).status).toBe(400);
    expect((await request('POST', undefined, { body: { chips: '--json=x; rm' } })).status).toBe(400);
  });

  it('are for holders of a token that may run the notebook', async () => {
    await bridge[Symbol.asyncDispose]();
    const state = await mkdtemp(path.join(tmpdir(), 'tpl-checks-state-'));
    const tokens = new TokenStore(state);
    const tokenOf = async (name: string, rights: Rights): Promise<string> =>
      (await tokens.create(name, null, { rights })).token;
    const [reader, runner] = [
      await tokenOf('reader', { level: 'read' }),
      await tokenOf('runner', { level: 'run', notebooks: ['mine.ipynb'] })
    ];
    bridge = await TemporaryGateway.start({
      stateDir: state,
      env: { ...process.env, TPULAB_AOT_PYTHON: at('python') }
    });
    await bridge.gateway.ready;
    for (const name of ['mine.ipynb', 'yours.ipynb']) await save(notebook('x = 1'), name);
    const status = async (token: string, name: string): Promise<number> =>
      (await request('POST', name, { token, body: { chips: CHIPS } })).status;
    expect(await status(reader, 'mine.ipynb')).toBe(403);
    expect(await status(runner, 'yours.ipynb')).toBe(403);
    expect(await status(runner, 'mine.ipynb')).toBe(202);
    expect((await request('GET', 'mine.ipynb', { token: reader })).status).toBe(403);
  });
});

it('a computer without the compiler reports its size on disk', async () => {
  await using bridge = await TemporaryGateway.start({
    env: { ...process.env, TPULAB_AOT_PYTHON: undefined }
  });
  await bridge.gateway.ready;
  await writeFile(path.join(bridge.folder, 'a.ipynb'), notebook('x = 1'));
  const { body } = await bridge.rest('GET', '/bridge/v1/checks/a.ipynb');
  const isPossible = process.platform === 'linux' && process.arch === 'x64';
  expect(body).toMatchObject({ compiler: { state: isPossible ? 'missing' : 'unsupported', diskMiB: 1_900 } });
});

describe.runIf(process.platform === 'linux' && process.arch === 'x64')('a missing compiler', () => {
  const text = notebook('x = 1');
  const withFolders = async (work: (checks: NotebookChecks, folders: TinyFolders) => Promise<void>) => {
    await using folders = await tinyFolders();
    await describeTiny(folders.definitions, 'aot', {});
    await using checks = new NotebookChecks({
      catalog: new EnvironmentCatalog(folders),
      files: { read: () => Promise.resolve({ bytes: Buffer.from(text) } as never) },
      ...{ rootDir: tmpdir(), folder: path.join(folders.environments, '../checks') },
      ...{ stateDir: tmpdir(), machines: () => [] },
      env: { ...process.env, TPULAB_AOT_PYTHON: undefined }
    });
    await work(checks, folders);
  };

  it('is installed by the first check, which then runs in it', () =>
    withFolders(async checks => {
      expect((await checks.status('a.ipynb')).compiler.state).toBe('missing');
      expect(await checks.start('a.ipynb', { chips: CHIPS })).toMatchObject({ state: 'running' });
      await vi.waitFor(async () => {
        const { state, error, compiler } = await checks.status('a.ipynb');
        // The environment of this test has no packages.
        expect({ state, compiler: compiler.state }).toEqual({ state: 'failed', compiler: 'ready' });
        expect(error?.message).toMatch(/No module named '?tpulab/);
      }, WAIT);
    }));

  it('leaves nothing when the check is stopped meanwhile', () =>
    withFolders(async (checks, folders) => {
      await checks.start('a.ipynb', { chips: CHIPS });
      expect(await checks.cancel('a.ipynb')).toMatchObject({
        ...{ state: 'cancelled', compiler: { state: 'missing' } }
      });
      expect(existsSync(path.join(folders.environments, 'aot'))).toBe(false);
    }));
});
