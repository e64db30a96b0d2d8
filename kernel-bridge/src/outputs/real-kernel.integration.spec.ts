/** The same cells run by nbclient on its own kernel, and through the gateway on ours: their outputs must be the same. */
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { NotebookOutput, OutputsPage } from '@tpulab/protocol';
import { beforeAll, describe, expect, it } from 'vitest';
import { outputsCommand } from '../cli/outputs/outputs-command.js';
import { runCommand } from '../cli/testing/command-line.js';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { writeKernelSpecs } from '../testing/kernelspecs.js';
import { OutputArea } from './output-area.js';
import { runPython } from './testing/lab-python.js';

const CELLS: readonly (readonly [id: string, code: string])[] = [
  ['percent', 'for i in range(101): print(f"\\r{i}%", end="", flush=True)\nprint()'],
  [
    'bar',
    'import sys\nfor i in range(40):\n    sys.stderr.write("\\rstep: %3d%%|%-40s| %d/40" % (i * 2.5, "#" * i, i))\n    sys.stderr.flush()\nsys.stderr.write("\\n")'
  ],
  ['backspace', 'print("wrong\\b\\b\\b\\b\\bright", end="")\nprint("\\rR")'],
  [
    'both',
    'import sys\nfor i in range(3):\n    print("out", i, flush=True)\n    print("err", i, file=sys.stderr, flush=True)'
  ],
  [
    'picture',
    '%matplotlib inline\nimport matplotlib.pyplot as plt\nfigure, axes = plt.subplots(figsize=(2, 1))\n_ = axes.plot([1, 3, 2])'
  ],
  [
    'cleared',
    'from IPython.display import clear_output, display\nfor i in range(5):\n    clear_output(wait=True)\n    print("epoch", i)\n    display(i)\nclear_output(wait=True)'
  ],
  ['emptied', 'print("gone", flush=True)\nclear_output()\nprint("stays")'],
  [
    'shows',
    'handle = display("first", display_id=True)\ntwin = display("other", display_id=handle.display_id)'
  ],
  ['updates', 'handle.update({"text/plain": "raw", "text/html": "<b>raw</b>"}, raw=True)\nprint("updated")'],
  ['result', '{"a": [1, 2], "b": None}'],
  ['fails', 'def inner():\n    raise ValueError("no")\nprint("before", flush=True)\ninner()'],
  [
    'widget',
    'import ipywidgets\nbox = ipywidgets.Output()\nwith box:\n    print("inside")\n    display(7)\nprint("outside")'
  ],
  ['help', 'len?'],
  ['late', 'print("last")']
];

interface Expected {
  readonly outputs: NotebookOutput[];
  readonly executionCount: number | null;
}

const bridge = gatewayForAll();
let notebook: string;
let expected: ReadonlyMap<string, Expected>;
let kernelId: string;

beforeAll(async () => {
  const cells = CELLS.map(([id, source]) => ({
    id,
    cell_type: 'code',
    execution_count: null,
    metadata: {},
    outputs: [],
    source
  }));
  notebook = path.join(bridge.folder, 'cells.ipynb');
  const content = { cells, metadata: {}, nbformat: 4, nbformat_minor: 5 };
  await writeFile(notebook, `${JSON.stringify(content, null, 1)}\n`);
  kernelId = await bridge.startKernel();
  await makeFontCache();
  const [printed] = await Promise.all([
    runPython('run_with_nbclient.py', [notebook], { JUPYTER_PATH: writeKernelSpecs(bridge.folder) }),
    runCells()
  ]);
  const made = JSON.parse(printed) as Expected[];
  expected = new Map(CELLS.map(([id], index) => [id, made[index]!]));
});

/**
 * matplotlib creates its font cache when there is none. If that takes more than 5 s, it prints a warning in whichever cell
 * is then running.
 */
async function makeFontCache(): Promise<void> {
  using client = await bridge.connect(kernelId);
  const options = { silent: true, store_history: false };
  await client.done(client.execute('import matplotlib.font_manager', options));
}

async function runCells(): Promise<void> {
  using client = await bridge.connect(kernelId);
  for (const [cellId, code] of CELLS)
    await client.done(client.execute(code, { stop_on_error: false }, { cellId }));
}

/** nbclient keeps carriage returns unchanged; here they are applied, by the rules of JupyterLab's own area. */
function asShown(outputs: readonly NotebookOutput[]): NotebookOutput[] {
  const area = new OutputArea(Infinity);
  outputs.forEach((output, index) => area.add(output, { seq: index + 1 }));
  return area.entries().map(({ output }) => output);
}

async function read(query = ''): Promise<OutputsPage> {
  const { body } = await bridge.rest('GET', `/bridge/v1/kernels/${kernelId}/outputs${query}`);
  return body as OutputsPage;
}

describe('cells that ran on a real kernel', () => {
  it.each(CELLS.map(([id]) => id).filter(id => id !== 'help'))('show what nbclient shows: %s', async id => {
    const { executions } = await read(`?cell=${id}`);
    const shown = executions[0]!.outputs.map(({ output }) => output);
    const { outputs, executionCount } = expected.get(id)!;
    expect(shown).toEqual(asShown(outputs));
    expect(executions[0]!.executionCount).toBe(executionCount);
    expect(executions[0]!.state).toBe(id === 'fails' ? 'error' : 'ok');
  });

  it('show these texts and kinds of output', async () => {
    const { executions, widgets } = await read();
    const shown = new Map(
      executions.map(({ cellId, outputs }) => [cellId, outputs.map(({ output }) => output)])
    );
    expect(shown.get('percent')).toEqual([{ output_type: 'stream', name: 'stdout', text: '100%\n' }]);
    expect(shown.get('backspace')).toEqual([{ output_type: 'stream', name: 'stdout', text: 'Right\n' }]);
    expect(shown.get('picture')).toMatchObject([
      { data: { 'image/png': expect.stringMatching(/^iVBOR/) as string } }
    ]);
    expect(shown.get('cleared')).toMatchObject([
      { text: 'epoch 4\n' },
      { output_type: 'display_data', data: { 'text/plain': '4' } }
    ]);
    for (const output of shown.get('shows') ?? [])
      expect(output).toMatchObject({ data: { 'text/html': '<b>raw</b>' } });
    // JupyterLab shows help below its cell; nbclient leaves it out.
    expect(shown.get('help')).toMatchObject([{ output_type: 'display_data', metadata: {} }]);
    expect(widgets).toHaveLength(1);
    expect(widgets[0]!.outputs.map(({ output }) => output)).toMatchObject([
      { output_type: 'stream', text: 'inside\n' },
      { output_type: 'display_data', data: { 'text/plain': '7' } }
    ]);
  });

  it('are written into their notebook, which nbformat then accepts as valid', async () => {
    const { error } = await runCommand(
      outputsCommand,
      kernelId,
      '--into',
      notebook,
      '--state-dir',
      bridge.folder
    );
    expect(error).toBeNull();
    expect(JSON.parse(await runPython('nbformat_oracle.py', ['validate', notebook]))).toEqual([null]);
    const { cells } = JSON.parse(await readFile(notebook, 'utf8')) as {
      cells: { id: string; execution_count: number; outputs: { text?: string[] }[] }[];
    };
    const counts = cells.map(({ id, execution_count: count }) => [id, count]);
    expect(counts).toEqual([...expected].map(([id, { executionCount }]) => [id, executionCount]));
    expect(cells.at(-1)?.outputs).toEqual([{ name: 'stdout', output_type: 'stream', text: ['last\n'] }]);
  });
});
