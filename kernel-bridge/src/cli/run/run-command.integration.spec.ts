/** A notebook that runs through a gateway with a real kernel: to its end, without a client, and followed again. */
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { pino } from 'pino';
import { MemoryLimit, overfill } from '../../testing/memory-limit.js';
import { gatewayForAll } from '../../testing/shared-gateway.js';
import { kernelsCommand } from '../kernels/kernels-command.js';
import { outputsCommand } from '../outputs/outputs-command.js';
import { type Ran, runCommand as runInThisProcess } from '../testing/command-line.js';
import { writeNotebook } from '../testing/notebook-file.js';
import { runCommand } from './run-command.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const logged: string[] = [];
const bridge = gatewayForAll({ log: pino({ level: 'info' }, { write: line => void logged.push(line) }) });
let folder: string;
let followers: string[][];

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  followers = [];
});
afterEach(async () => rm(folder, { recursive: true }));

const run = (...args: string[]): Promise<Ran> =>
  runInThisProcess(
    streams => runCommand(streams, args => void followers.push([...args]), { awayPollMs: 20 }),
    ...args,
    '--state-dir',
    bridge.folder
  );

const notebook = (...sources: string[]): Promise<string> => writeNotebook(folder, 'lesson', sources);

/** Writes a notebook with these cells; each is its code, followed by its tags. */
async function tagged(cells: readonly (readonly [string, ...string[]])[]): Promise<string> {
  const file = await notebook(...cells.map(([source]) => source));
  const json = JSON.parse(await readFile(file, 'utf8')) as { cells: { metadata: object }[] };
  json.cells.forEach((cell, at) => (cell.metadata = { tags: cells[at]!.slice(1) }));
  await writeFile(file, JSON.stringify(json));
  return file;
}

interface Cell {
  readonly outputs: { text?: string | string[]; ename?: string }[];
  readonly execution_count: number | null;
}
const cellsOf = async (file: string): Promise<Cell[]> =>
  (JSON.parse(await readFile(file, 'utf8')) as { cells: Cell[] }).cells;
const textOf = ({ outputs }: Cell): string =>
  outputs.map(({ text }) => [text ?? ''].flat().join('')).join('');
const sessions = async (): Promise<unknown> => (await bridge.rest('GET', '/api/sessions')).body;

it('runs all cells, saves their outputs, and ends the kernel', async () => {
  const file = await notebook('x = 20', '', 'print(x + 1)', 'x * 2');
  const { error, stdout } = await run(file, '--json');
  expect(error).toBeNull();
  expect(JSON.parse(stdout)).toMatchObject({ failure: null, remote: null });
  const cells = await cellsOf(file);
  expect(textOf(cells[2]!)).toBe('21\n');
  expect(cells.map(({ execution_count }) => execution_count)).toEqual([1, null, 2, 3]);
  expect(await sessions()).toEqual([]);
});

it('fails when the notebook fails: the error is in its cell, and later cells were not run', async () => {
  const file = await notebook('print("before")', '1 / 0', 'print("after")');
  const { error } = await run(file);
  expect(error).toMatchObject({ code: 'notebook_failed' });
  expect(error!.message).toContain('Cell 2 of 3 raised ZeroDivisionError');
  const cells = await cellsOf(file);
  expect(textOf(cells[0]!)).toBe('before\n');
  expect(cells[1]!.outputs[0]!.ename).toBe('ZeroDivisionError');
  expect(textOf(cells[2]!)).toBe('');
  // Attaching again reports the same error.
  expect((await run(file, '--attach')).error).toMatchObject({ code: 'notebook_failed' });
});

it('names the exceptions in an exception group', async () => {
  const failing = [
    'async def fails(error): raise error',
    'import asyncio',
    'async with asyncio.TaskGroup() as group:',
    '    group.create_task(fails(ValueError("bad rate")))',
    '    group.create_task(fails(ExceptionGroup("inner", [KeyError("k"), OSError()])))'
  ];
  const { error } = await run(await notebook(failing.join('\n')));
  expect(error!.message).toContain(
    "Cell 1 of 1 raised a group of exceptions: ValueError: bad rate; KeyError: 'k'; OSError."
  );
});

it('continues without a client, is not started twice, and can be followed again', async () => {
  const gate = path.join(folder, 'gate');
  const wait = `import os, time\nprint("begun", flush=True)\nwhile not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.02)`;
  const file = await notebook(wait, 'print("done")');
  const { stdout, error } = await run(file, '--detach', '--json');
  expect(error).toBeNull();
  expect(JSON.parse(stdout)).toMatchObject({ endedAt: null });
  expect(followers).toEqual([['execute', file, '--attach', '--json', '--state-dir', bridge.folder]]);
  expect((await run(file)).error).toMatchObject({ code: 'run_in_progress' });
  const followed = run(file, '--attach');
  // The output is in the file while the cell still runs.
  await vi.waitUntil(async () => textOf((await cellsOf(file))[0]!) === 'begun\n', { timeout: 60_000 });
  await writeFile(gate, '');
  expect((await followed).error).toBeNull();
  expect(textOf((await cellsOf(file))[1]!)).toBe('done\n');
});

it('reports that the kernel ended in the middle', async () => {
  const file = await notebook('print("here", flush=True)', 'import os; os._exit(3)', 'print("never")');
  const { error } = await run(file);
  expect(error).toMatchObject({ code: 'notebook_failed' });
  expect(textOf((await cellsOf(file))[0]!)).toBe('here\n');
});

it('honours the tags raises-exception and skip-execution', async () => {
  const file = await tagged([
    ['x = 1'],
    ['1 / 0', 'raises-exception'],
    ['print("after the error")'],
    ['raise SystemError', 'skip-execution'],
    ['print("end")']
  ]);
  const { error, stderr } = await run(file);
  expect(error).toBeNull();
  expect(stderr).toContain('1 cell was skipped');
  const cells = await cellsOf(file);
  expect(cells[1]!.outputs[0]!.ename).toBe('ZeroDivisionError');
  expect(cells.map(({ execution_count }) => execution_count)).toEqual([1, 2, 3, null, 4]);
  expect(textOf(cells[4]!)).toBe('end\n');
});

it("runs in the notebook's folder, whatever the server's folder is", async () => {
  await writeFile(path.join(folder, 'helper.py'), 'words = "from beside"');
  const file = await notebook('import helper, os\nprint(helper.words)\nprint(os.path.realpath(os.getcwd()))');
  expect(await run(file)).toMatchObject({
    error: null,
    stderr: expect.not.stringContaining('runs in') as string
  });
  expect(textOf((await cellsOf(file))[0]!)).toBe(`from beside\n${await realpath(folder)}\n`);
});

it.each(['exit()', 'quit()', 'exit'])('is ended by %s', async how => {
  const file = await notebook('print("step 1")', how, 'print("must not run")');
  const { error } = await run(file);
  expect(error!.message).toContain('Cell 2 of 3 raised SystemExit: exit() was called.');
  expect(textOf((await cellsOf(file))[0]!)).toBe('step 1\n');
  expect(textOf((await cellsOf(file))[2]!)).toBe('');
  expect(await sessions()).toEqual([]);
});

it('does not run a cell that reaches the kernel after an error', async () => {
  const late = `print("must not run")\n# ${'x'.repeat(2_000_000)}`;
  const file = await notebook('1 / 0', ...Array.from({ length: 12 }, () => late));
  const { error } = await run(file);
  expect(error!.message).toContain('Cell 1 of 13 raised ZeroDivisionError: division by zero.');
  const [, ...others] = await cellsOf(file);
  expect(others.map(({ outputs }) => outputs)).toEqual(others.map(() => []));
});

it('reports how the kernel ended, in the message and in the cell', async () => {
  const file = await notebook(
    'print("here", flush=True)',
    // A killed process loses its unsent messages, so the previous cell waits until its end was sent.
    'import os, signal, time; time.sleep(1); os.kill(os.getpid(), signal.SIGSEGV)',
    '1'
  );
  const { error } = await run(file);
  const cause =
    /the kernel ended: killed by SIGSEGV \(segmentation fault, signal 11\); see (\S+kernel\.log)\. /;
  expect(error!.message).toMatch(cause);
  expect(await readFile(cause.exec(error!.message)![1]!, 'utf8')).toContain('--existing');
  expect((await cellsOf(file))[1]!.outputs.at(-1)!.ename).toBe('KernelEnded');
});

it('names the end in the first lost cell where the kernel lost the message of its start', async () => {
  const file = await notebook('import os, signal; os.kill(os.getpid(), signal.SIGSEGV)', '1');
  const { error } = await run(file);
  expect(error!.message).toMatch(/^Cell 1 of 2 did not finish: the kernel ended: killed by SIGSEGV/);
  expect((await cellsOf(file))[0]!.outputs.at(-1)!.ename).toBe('KernelEnded');
});

it('reports that a kernel was killed for lack of memory, in the terminal, the file, "kernels show" and the log', async ({
  skip
}) => {
  await using limit = await MemoryLimit.make(400 * 2 ** 20).then(made =>
    typeof made === 'string' ? skip(made) : made
  );
  const file = await notebook('print("here", flush=True)', overfill(limit), 'print("never")');
  const { error } = await run(file, '--keep-kernel');
  const why = 'killed by SIGKILL, probably because the machine ran out of memory';
  expect(error!.message).toContain(`Cell 2 of 3 did not finish: the kernel ended: ${why}`);
  expect(await cellsOf(file)).toMatchObject([
    { outputs: [{ text: ['here\n'] }] },
    { outputs: [{ ename: 'KernelEnded', evalue: expect.stringContaining(why) as string }] },
    { outputs: [] }
  ]);
  const [session] = (await sessions()) as { id: string; kernel: { id: string } }[];
  const shown = await runInThisProcess(
    kernelsCommand,
    ...['show', session!.kernel.id, '--state-dir', bridge.folder]
  );
  expect(shown.stdout).toContain(`last end       ${why}`);
  expect(logged.join('')).toContain(`"reason":"${why}`);
  await bridge.rest('DELETE', `/api/sessions/${session!.id}`);
});

it('waits for threads that print after the last cell', async () => {
  const file = await notebook(
    'import threading, time',
    'def late():\n    for i in range(4): time.sleep(0.5); print("late", i, flush=True)\nthreading.Thread(target=late).start()'
  );
  const { error, stderr } = await run(file);
  expect(error).toBeNull();
  expect(textOf((await cellsOf(file))[1]!)).toBe('late 0\nlate 1\nlate 2\nlate 3\n');
  expect(stderr).not.toContain('still run 60 s');
});

it('saves all outputs that an Output widget has captured', async () => {
  const file = await notebook(
    'import ipywidgets as w, time\nout = w.Output(); display(out)\nwith out:\n    for i in range(10): print(i); time.sleep(0.1)\ntime.sleep(1)'
  );
  expect((await run(file)).error).toBeNull();
  const text = await readFile(file, 'utf8');
  expect(text).toContain('0\\n1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n');
});

it('sets parameters as papermill does, and replaces the parameters of an earlier run', async () => {
  const file = await tagged([
    ['print("first")'],
    ['rate, name = 1.0, "none"', 'parameters'],
    ['print(rate, name, extra)']
  ]);
  const values = path.join(folder, 'values.yaml');
  await writeFile(values, 'rate: 0.5\nextra: [1, null, {a: true}]\n');
  expect(
    (await run(file, '--parameters', values, '-p', 'rate', '1e-3', '-p', 'name', 'some "name"')).error
  ).toBeNull();
  expect((await run('-p', 'extra', '7', '-p', 'name', 'x', file)).error).toBeNull();
  const cells = await cellsOf(file);
  expect(cells).toHaveLength(4);
  expect(textOf(cells[3]!)).toBe('1.0 x 7\n');
  expect((await run(file, '-p', 'a b', '1')).error).toMatchObject({ code: 'run_not_started' });
});

it('stores a bar that moves the cursor as one line, and prints no cursor movement', async () => {
  // A stock kernel drops messages more than 1,000 ahead of its reader, as happens with a progress bar on a busy machine.
  const bar = `import sys\nfor i in range(1, 401): sys.stderr.write(f'\\r{i:4d}/400 |' + '#' * (i // 20) + '|'); sys.stderr.flush()`;
  const file = await notebook(bar, "print('\\x1b[2J\\x1b[2A\\x1b[?25lseen\\x1b]0;a title\\x07 and read')");
  expect((await run(file)).error).toBeNull();
  expect(textOf((await cellsOf(file))[0]!)).toBe(` 400/400 |${'#'.repeat(20)}|`);
  const printed = await runInThisProcess(outputsCommand, file, '--state-dir', bridge.folder);
  expect(printed.stdout).toContain('seen and read');
  expect(printed.stdout).not.toContain('\x1b');
});

it('runs a notebook of 3,000 cells and 22 MB, and leaves its text unchanged', async () => {
  const text = (at: number): string => `# ${at}\n${'long text '.repeat(750)}`;
  const file = await notebook('print("first")', 'print("last")');
  const json = JSON.parse(await readFile(file, 'utf8')) as { cells: object[] };
  const texts = Array.from({ length: 2_998 }, (_, at) => ({
    ...{ cell_type: 'markdown', id: `text-${at}`, metadata: {}, source: text(at) }
  }));
  json.cells.splice(1, 0, ...texts);
  await writeFile(file, JSON.stringify(json));
  expect((await run(file)).error).toBeNull();
  const cells = await cellsOf(file);
  expect(cells).toHaveLength(3_000);
  expect(cells.slice(1, -1)).toEqual(texts);
  expect([cells[0]!, cells.at(-1)!].map(textOf)).toEqual(['first\n', 'last\n']);
});

it('runs notebooks with odd names, each separately', async () => {
  const names = [
    'a b',
    'a%20b',
    'x?y#z',
    'it\'s "quoted" <b>&amp;',
    'e\u0301te\u0301 \u{1f680}',
    'back\\slash [1] {a}~$HOME'
  ];
  await mkdir(path.join(folder, 'odd%23 #?'));
  for (const [at, name] of names.entries()) {
    const file = await writeNotebook(path.join(folder, 'odd%23 #?'), name, [`print(${at})`]);
    expect((await run(file)).error).toBeNull();
    expect(textOf((await cellsOf(file))[0]!)).toBe(`${at}\n`);
  }
});

it.each(['lambda', 'a b', '1x'])(
  'the parameter name %j, which Python cannot assign to, is refused',
  async name => {
    const file = await tagged([['rate = 1', 'parameters']]);
    expect((await run(file, '-p', name, '1')).error).toMatchObject({ code: 'run_not_started' });
  }
);

it('reads a file of parameters as papermill does', async () => {
  const names = ['rate', 'n', 'y', 'nothing', 'day', 'big', 'far', 'text', 'deep'];
  const file = await tagged([[`${names.join(' = ')} = 0`, 'parameters'], [`print([${names.join(', ')}])`]]);
  const values = path.join(folder, 'values.yaml');
  const lines = [
    '1e-4',
    '1.0',
    'yes',
    'null',
    '2026-11-28',
    '123456789012345678901',
    '-.inf',
    '"a\\nb"',
    '[1, {x: .5}]'
  ];
  await writeFile(values, names.map((name, at) => `${name}: ${lines[at]}\n`).join(''));
  expect((await run(file, '--parameters', values)).error).toBeNull();
  expect(textOf((await cellsOf(file)).at(-1)!)).toBe(
    "[0.0001, 1.0, True, None, '2026-11-28', 123456789012345678901, -inf, 'a\\nb', [1, {'x': 0.5}]]\n"
  );
});

it('refuses a tag that YAML does not know, and never prints a warning of Node', async () => {
  const file = await tagged([['rate = 1', 'parameters']]);
  const values = path.join(folder, 'tagged.yaml');
  await writeFile(values, 'rate: !!python/tuple [1, 2]\n');
  const warn = vi.spyOn(process, 'emitWarning');
  expect((await run(file, '--parameters', values)).error).toMatchObject({
    code: 'run_not_started',
    message: expect.stringContaining('Unresolved tag') as unknown
  });
  await writeFile(values, '{ [1, 2]: 3 }\n');
  expect((await run(file, '--parameters', values)).error).toMatchObject({ code: 'run_not_started' });
  expect(warn).not.toHaveBeenCalled();
  warn.mockRestore();
});

it('ends when a person restarts the kernel, which then keeps running for that person', async () => {
  const file = await notebook('print("begun", flush=True)\nimport time; time.sleep(600)', '1');
  const running = run(file);
  await vi.waitUntil(async () => textOf((await cellsOf(file))[0]!) === 'begun\n', { timeout: 60_000 });
  const [{ id, kernel }] = (await sessions()) as [{ id: string; kernel: { id: string } }];
  expect((await bridge.rest('POST', `/api/kernels/${kernel.id}/restart`)).status).toBe(200);
  expect((await running).error!.message).toContain('Cell 1 of 2 did not finish: the kernel was restarted.');
  expect(await sessions()).toMatchObject([{ id, kernel: { id: kernel.id } }]);
  await bridge.rest('DELETE', `/api/sessions/${id}`);
});

it('never runs a notebook of another language, and leaves its file unchanged', async () => {
  const file = await writeNotebook(folder, 'r', ['x <- 1'], {
    kernelspec: { name: 'ir', display_name: 'R', language: 'R' }
  });
  const before = await readFile(file, 'utf8');
  expect((await run(file)).error!.message).toContain('needs the kernel "ir" (R), which is missing there');
  expect(await readFile(file, 'utf8')).toBe(before);
});

describe('on a slice that loses hosts', () => {
  /**
   * A cell that fails this many times as on a slice that loses hosts: first a host is lost, then it is still unreachable,
   * and so on.
   */
  const losing = (times: number): string => `import pathlib
class HostLostError(RuntimeError): pass
class SliceStartError(RuntimeError): pass
tries = pathlib.Path(${JSON.stringify(path.join(folder, 'tries'))})
n = len(tries.read_text()) if tries.exists() else 0
tries.write_text("x" * (n + 1))
if n < ${times}: raise (SliceStartError if n % 2 else HostLostError)(f"Host 1 (a@10.0.0.{n}) is away: why. Restart.")
print("try", n)`;
  const restarts = async (...args: string[]): Promise<unknown> => {
    const { stdout, error } = await run(...args, '--json');
    if (error !== null) throw error;
    return JSON.parse(stdout);
  };

  it('is rerun from the first cell on new processes, and reports how often and why', async () => {
    const file = await notebook('x = globals().get("x", 0) + 1', losing(2), 'print(x)');
    const { endedAt, ...ended } = (await restarts(file)) as { endedAt: string };
    expect(endedAt).not.toBeNull();
    expect(ended).toMatchObject({
      failure: null,
      restarts: [{ reason: 'Host 1 (a@10.0.0.0) is away: why' }],
      restartsAtMost: 3
    });
    const cells = await cellsOf(file);
    expect(cells.slice(1).map(textOf)).toEqual(['try 2\n', '1\n']);
    expect(cells[1]!.outputs).toHaveLength(1);
    expect((await run(file, '--attach')).stderr).toContain('Host 1 (a@10.0.0.0) is away: why. It was rerun.');
  });

  it('ends with that error after the maximum number of reruns', async () => {
    const file = await notebook(losing(9));
    const { error, stderr } = await run(file, '--restarts', '1');
    expect(error!.message).toContain('Cell 1 of 1 raised HostLostError: Host 1 (a@10.0.0.2) is away');
    expect(stderr).toContain('Running the notebook again (1 of at most 1 times).');
    expect(stderr).toContain('Host 1 (a@10.0.0.1) is away: why. Trying again in 0 s.');
  });

  it('is not rerun if a person who follows it declines', async () => {
    const file = await notebook(losing(9));
    expect((await run(file, '--detach')).error).toBeNull();
    const { error, stderr } = await run(file, '--attach', '--restarts', '0');
    expect(error!.message).toContain('Cell 1 of 1 raised HostLostError: Host 1 (a@10.0.0.0)');
    expect(stderr).not.toContain('again');
  });
});

it('refuses an invalid run with a remedy', async () => {
  const file = await notebook('');
  expect((await run(file)).error).toMatchObject({ code: 'notebook_unusable' });
  const missing = {
    code: 'notebook_unusable',
    message: expect.stringContaining('there is no such file') as string
  };
  expect((await run(path.join(folder, 'none.ipynb'))).error).toMatchObject(missing);
  expect((await run(file, '--attach')).error).toMatchObject({ code: 'run_unknown' });
  const other = await notebook('1');
  expect((await run(other, '--kernel', 'fortran')).error).toMatchObject({ code: 'run_not_started' });
  // In JAX's kernel the first cell would fail with an import error.
  const metadata = { kernelspec: { name: 'tpulab-torch-xla', display_name: 'PyTorch/XLA' } };
  const lesson = JSON.parse(await readFile(other, 'utf8')) as object;
  await writeFile(other, JSON.stringify({ ...lesson, metadata }));
  const { error } = await run(other);
  expect(error).toMatchObject({ code: 'run_not_started' });
  expect(error!.message).toContain('"tpulab env create torch-xla" makes it');
});

it('says that the outputs are not in a notebook that was removed or emptied meanwhile, and where they are', async () => {
  for (const change of ['os.remove(name)', 'open(name, "w").close()']) {
    const file = await notebook(
      'print("before")',
      `import os, glob\nname, = glob.glob("*.ipynb")\n${change}`
    );
    const { error } = await run(file);
    expect(error).toMatchObject({ code: 'notebook_not_written' });
    expect(error!.message).toMatch(
      /have run\. The notebook .* cannot be used: .*"tpulab outputs [0-9a-f-]+"/
    );
    expect((await run(file, '--attach')).error).toMatchObject({ code: 'notebook_unusable' });
  }
});

it('says how many cells were edited or removed meanwhile', async () => {
  const edit =
    'import json, glob\nname, = glob.glob("*.ipynb")\ntext = json.load(open(name))\ntext["cells"][1]["source"] = "2"\ndel text["cells"][2]\njson.dump(text, open(name, "w"))';
  const { error, stderr } = await run(await notebook(edit, 'print(1)', 'print(2)', 'print(3)'));
  expect(error).toBeNull();
  expect(stderr).toMatch(
    /except those of 2 cells edited or removed meanwhile; "tpulab outputs [0-9a-f-]+" shows/
  );
});

it('refuses a notebook of more cells than the index of outputs lists', async () => {
  const { error } = await run(await notebook(...Array.from({ length: 18_001 }, () => 'x = 1')));
  expect(error).toMatchObject({ code: 'run_not_started' });
  expect(error!.message).toContain('has 18001 code cells, and a run has at most 18000');
});

it('runs a notebook of more cells than a starting kernel holds', { tags: ['long'] }, async () => {
  const file = await notebook(...Array.from({ length: 2100 }, (_, at) => `x = ${at}`), 'x');
  const { error } = await run(file);
  expect(error).toBeNull();
  expect((await cellsOf(file)).at(-1)!.execution_count).toBe(2101);
});
