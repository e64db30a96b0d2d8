/** `tpulab execute --on NAME --detach` in its own terminal, on a stand-in VM over ssh: the terminal closes, the run continues. */
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { StandInVm, unavailableReason } from '../../../../tests/stand-in-vm/index.js';
import { bridgeBuild } from '../../faults/testing/bridge-build.js';
import { holderOf } from '@tpulab/platform/process-lock.js';
import { Hub } from '../../remotes/testing/hub.js';
import { writeNotebook } from '../testing/notebook-file.js';
import { inTerminal } from '../testing/terminal.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();
const POLLING = { timeout: 60_000, interval: 50 };
// ssh, URLs and shells would interpret these characters, and the path of a socket has room for 107 bytes.
const ODD_FOLDERS = [`-o my 'state' "100%25 %h" #1?`, 'jürgen ${HOME} ~ a\\b', 'n'.repeat(100)];

describe.skipIf(why !== null)(`a run on a machine${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let vm: StandInVm;
  let hub: Hub;
  let program: string;
  let folder: string;

  beforeAll(async () => {
    program = await bridgeBuild();
    folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    vm = await StandInVm.start();
    hub = await Hub.start(vm.laptop);
    await hub.add();
    await hub.until('connected');
  });
  afterAll(async () => {
    await hub[Symbol.asyncDispose]();
    await vm[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  const tpulab = (...args: string[]) =>
    inTerminal([process.execPath, program, ...args, '--state-dir', hub.bridge.folder]);

  /** The process that writes the outputs into the notebook. */
  async function follower(): Promise<number | null> {
    const runs = path.join(hub.bridge.folder, 'notebook-runs');
    const names = await readdir(runs).catch(() => []);
    const lock = names.find(name => name.endsWith('.lock'));
    return lock === undefined ? null : ((await holderOf(path.join(runs, lock)))?.pid ?? null);
  }

  /** A cell that waits between two lines for a file on the VM, and a second cell with the code `last`. */
  function notebook(name: string, last: string): Promise<string> {
    const wait = `import os, time\nprint("begun", flush=True)\nwhile not os.path.exists("go-on-${name}"): time.sleep(0.02)\nprint("on")`;
    return writeNotebook(folder, name, [wait, last]);
  }

  const goOn = (name: string): Promise<string> => vm.run(`touch "$HOME/go-on-${name}"`);

  async function textOf(file: string, at: number): Promise<string> {
    const { cells } = JSON.parse(await readFile(file, 'utf8')) as {
      cells: { outputs: { text?: string | string[]; ename?: string }[] }[];
    };
    return cells[at]!.outputs.map(({ text, ename }) => ename ?? [text ?? ''].flat().join('')).join('');
  }

  it('continues after its terminal has closed, and a later follower gets the same result', async () => {
    const file = await notebook('fails', '1 / 0');
    const begun = await tpulab('execute', file, '--on', 'vm', '--detach');
    expect(begun).toMatchObject({ code: 0 });
    expect(begun.output).toContain(`tpulab execute ${file} --attach --on vm`);
    const pid = await vi.waitUntil(follower, POLLING);
    // A closing terminal sends this signal to its remaining processes; it is repeated here for certainty.
    process.kill(-pid, 'SIGHUP');
    await vi.waitUntil(async () => (await textOf(file, 0)) === 'begun\n', POLLING);
    expect(await follower()).toBe(pid);
    const attached = tpulab('execute', file, '--on', 'vm', '--attach');
    await goOn('fails');
    const { code, output } = await attached;
    expect(code).toBe(1);
    expect(output).toContain('Cell 2 of 2 raised ZeroDivisionError');
    await vi.waitUntil(async () => (await follower()) === null, POLLING);
    expect(await textOf(file, 0)).toBe('begun\non\n');
    expect(await textOf(file, 1)).toBe('ZeroDivisionError');
    expect((await hub.rest('GET', '/machines/vm/api/kernels')).body).toEqual([]);
  });

  it('is followed again after its follower was killed, and no output from in between is missing', async () => {
    const file = await notebook('works', 'print("done")');
    expect(await tpulab('execute', file, '--on', 'vm', '--detach')).toMatchObject({ code: 0 });
    const pid = await vi.waitUntil(follower, POLLING);
    process.kill(pid, 'SIGKILL');
    await goOn('works');
    expect(await tpulab('execute', file, '--on', 'vm', '--attach')).toMatchObject({ code: 0 });
    expect(await textOf(file, 0)).toBe('begun\non\n');
    expect(await textOf(file, 1)).toBe('done\n');
  });

  it('names the error of a machine in one line, without its line breaks and colours', async () => {
    const file = await writeNotebook(folder, 'raises', [
      'raise ValueError("one\\nTwo\\r\\x1b]0;t\\x07three")'
    ]);
    const { code, output } = await tpulab('execute', file, '--on', 'vm');
    expect(code).toBe(1);
    expect(output).toContain('Cell 1 of 1 raised ValueError: one.');
    expect(output).not.toMatch(/Two|three/);
  });

  it.each(ODD_FOLDERS)('is mirrored and followed from a state folder named %j', async name => {
    const stateDir = path.join(folder, name);
    await mkdir(stateDir);
    await using odd = await Hub.start(vm.laptop, { stateDir });
    await odd.add();
    await odd.until('connected');
    const { status } = await odd.rest('POST', '/machines/vm/api/kernels', { body: { name: 'python3' } });
    expect(status).toBe(201);
    await vi.waitUntil(async () => (await odd.remote()).mirror.bytes > 0, POLLING);
    const file = await writeNotebook(stateDir, 'quick', ['print("done")']);
    const run = ['execute', file, '--on', 'vm', '--state-dir', stateDir];
    expect(await inTerminal([process.execPath, program, ...run])).toMatchObject({ code: 0 });
    expect(await textOf(file, 0)).toBe('done\n');
    await odd.post('disconnect');
  });
});
