/** `tpulab check --on NAME` on a stand-in VM over ssh: the agent there checks, with a double in place of libtpu's compiler. */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { NotebookCheck } from '@tpulab/protocol';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { StandInVm, unavailableReason } from '../../../tests/stand-in-vm/index.js';
import { Hub } from '../remotes/testing/hub.js';
import { checkCommand } from './check-command.js';
import type { Confirm } from './output.js';
import { writeNotebook } from './testing/notebook-file.js';
import { type Ran, runCommand } from './testing/command-line.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();
const STEP = `import functools, jax, jax.numpy as jnp, settings
@functools.partial(jax.jit, donate_argnames="state")
def train(state, x):
    return state - x.sum(), x.mean()
state = jnp.ones((64, 64))
for _ in range(2):
    state, mean = train(state, jnp.ones((settings.ROWS, 128)))
`;

describe.skipIf(why !== null)(`a check on a machine${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let vm: StandInVm;
  let hub: Hub;
  let folder: string;
  const before = process.cwd();

  beforeAll(async () => {
    vm = await StandInVm.start();
    await vm.useCompilerDouble();
    hub = await Hub.start(vm.laptop);
    await hub.add();
    await hub.until('connected');
  });
  afterAll(async () => {
    await hub[Symbol.asyncDispose]();
    await vm[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), `tpulab "check" it's `));
    await mkdir(path.join(folder, 'sub dir'));
    await writeFile(path.join(folder, 'sub dir', 'train.py'), STEP);
    await writeFile(path.join(folder, 'sub dir', 'settings.py'), 'ROWS = 1024\n');
    process.chdir(folder);
  });
  afterEach(async () => {
    process.chdir(before);
    process.exitCode = 0;
    vi.unstubAllGlobals();
    await rm(folder, { recursive: true });
  });

  const check = (...args: readonly string[]): Promise<Ran> =>
    runCommand(checkCommand, ...args, '--state-dir', hub.bridge.folder, '--on', 'vm');
  const runsThere = async (): Promise<string[]> =>
    (await readdir(path.join(vm.home, '.cache/tpulab/checks'))).filter(name => name.length > 16);

  it('copies the folder, and brings all results back with the names of this computer', async () => {
    await writeFile(path.join(folder, 'tpulab.toml'), '[check]\nhbm_gib = 0.001\n');
    const files = ['--json=r.json', '--junit=out/j.xml', '--sarif=s.sarif'];
    const ran = await check('sub dir/train.py', '--chips', 'v5e-8', ...files);
    expect(ran.error).toBeNull();
    expect(process.exitCode).toBe(1);
    expect(ran.stdout).toContain('train does not fit v5e-8');
    expect(ran.stderr).toContain('compiling train for v5e-8 (1 of 1)');
    const report = JSON.parse(await readFile('r.json', 'utf8')) as Record<string, unknown>;
    expect(report).toMatchObject({ file: 'sub dir/train.py', findings: expect.any(Array) as unknown });
    expect(await readFile('out/j.xml', 'utf8')).toContain('file="sub dir/train.py" line="2"');
    expect(await readFile('s.sarif', 'utf8')).toContain('"uri": "sub%20dir/train.py"');
    expect(await runsThere()).toEqual([]);
  });

  it('also copies files outside the folder, and prints the report with local names', async () => {
    await writeFile('prices.toml', 'date = 2026-01-01\n[chip_hour_usd]\nv5e = 7.5\n');
    await writeFile('tpulab.toml', '[check]\nallow = ["does-not-fit", "budget"]\n');
    process.chdir('sub dir');
    await check('train.py', '--chips=v5e-8', '--json=old.json');
    const more = ['--prices', '../prices.toml', '--compare', 'old.json', '--strict'];
    const ran = await check('../sub dir/train.py', '--chips=v5e-8', '--json', ...more);
    expect(ran.error).toBeNull();
    const report = JSON.parse(ran.stdout) as { prices: object; findings: { level: string }[] };
    expect(report.prices).toMatchObject({ chipHourUsd: { v5e: 7.5 } });
    expect(new Set(report.findings.map(({ level }) => level))).toEqual(new Set(['note', 'warning']));
    expect(process.exitCode).toBe(1);
    expect(ran.stdout).not.toContain('.cache');
  });

  it('sees a changed file the next time, and no deleted file', async () => {
    await check('sub dir/train.py', '--chips', 'v6e-8', '--json=1.json');
    await rm('sub dir/settings.py');
    const ran = await check('sub dir/train.py', '--chips', 'v6e-8');
    expect(ran.stdout).toContain("No module named 'settings'");
  });

  it('of a notebook is requested over HTTP, and its report is stored', async () => {
    const route = '/bridge/v1/checks/train.ipynb';
    await writeFile(path.join(hub.bridge.folder, 'settings.py'), 'ROWS = 64');
    await writeNotebook(hub.bridge.folder, 'train', [STEP]);
    const checkedOn = async (on: string): Promise<NotebookCheck> => {
      const begun = await hub.rest('POST', route, { body: { chips: 'v6e-8', on } });
      expect(begun).toMatchObject({ status: 202, body: { machines: ['vm'] } });
      return vi.waitUntil(
        async () => {
          const { body } = await hub.rest('GET', route);
          return (body as NotebookCheck).state === 'running' ? null : (body as NotebookCheck);
        },
        { timeout: 120_000, interval: 100 }
      );
    };
    const { error, last } = await checkedOn('vm');
    expect(error).toBeNull();
    expect(last?.report.programs[0]).toMatchObject({ name: 'train', place: { cell: 1, line: 2 } });
    expect((await checkedOn('other')).error?.message).toContain('"other"');
  });

  it('is offered where the compiler has no wheel and one machine is connected, and never started silently', async () => {
    const questions: string[] = [];
    const offered = (answer: boolean | null): Promise<Ran> => {
      const confirm: Confirm = async question => {
        questions.push(question);
        return answer;
      };
      const make = (streams: Parameters<typeof checkCommand>[0]) => checkCommand(streams, confirm);
      return runCommand(make, 'sub dir/train.py', '--state-dir', hub.bridge.folder, '--env-dir', folder);
    };
    vi.stubGlobal('process', Object.create(process, { arch: { value: 'arm64' } }));
    expect((await offered(null)).error?.message).toContain('The check can run on vm');
    expect((await offered(false)).error).toMatchObject({ code: 'not_confirmed' });
    expect(questions).toEqual(['Check on vm?', 'Check on vm?']);
    await hub.post('disconnect');
    await hub.until('disconnected');
    expect((await offered(true)).error).toMatchObject({ code: 'env_compiler_unsupported' });
    await hub.post('connect');
    await hub.until('connected');
  });

  it('leaves no process and no results there when it is interrupted', async () => {
    await vm.run(
      'sed -i \'2s/.*/[ "$2" != tpulab.check.source ] || { echo $$ > "$HOME\\/waits"; exec sleep 1000; }/\' "$HOME/compiler"'
    );
    const ran = check('sub dir/train.py', '--chips', 'v5e-8');
    const pid = await vi.waitUntil(
      () =>
        vm.run('cat "$HOME/waits"').then(
          text => text.trim(),
          () => null
        ),
      {
        timeout: 60_000,
        interval: 50
      }
    );
    process.emit('SIGTERM');
    await ran;
    await vi.waitUntil(
      () =>
        vm.run(`kill -0 ${pid}`).then(
          () => false,
          () => true
        ),
      { timeout: 60_000 }
    );
    expect(await runsThere()).toEqual([]);
  });
});
