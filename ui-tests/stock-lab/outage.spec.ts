/** Stock JupyterLab shows, and saves, everything that a cell printed while the bridge was unreachable. */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, type Page, test } from '@playwright/test';
import { waitUntil } from '../lab/processes.js';
import { currentKernel, readCells } from '../tests/lab-page.js';
import { type Sockets, StockLab } from './stock-lab.js';

const PART = 200;
const LINES = 3 * PART;
const EXPECTED = Array.from({ length: LINES }, (_, n) => `line ${n}\n`).join('');
/** Lab increases the interval between attempts; after a minute without an answer it may be half a minute. */
const RECONNECT_DEADLINE_MS = 240_000;

// The gates stop the cell at the end of each third until the test is ready, however fast the machine is.
const CELL = `import pathlib, sys, time
from IPython.display import display, HTML
for n in range(${LINES}):
    print("line", n, flush=True)
    if (n + 1) % ${PART} == 0:
        pathlib.Path(f"printed-{n + 1}").touch()
        while not pathlib.Path(f"gate-{n + 1}").exists():
            time.sleep(0.01)
display(HTML("<b>the end</b>"))
n`;

interface Case {
  readonly sockets: Sockets;
  readonly outageMs: number;
  readonly when: string;
}

const CASES: readonly Case[] = [
  { sockets: 'direct', outageMs: 60_000, when: 'for a minute, with its sockets at the bridge' },
  { sockets: 'direct', outageMs: 3_000, when: 'for some seconds, with its sockets at the bridge' },
  // jupyter_server tries five times within half a minute and then gives up, so it does not survive a longer outage.
  { sockets: 'gateway', outageMs: 3_000, when: "for some seconds, behind jupyter_server's gateway client" }
];

for (const { sockets, outageMs, when } of CASES) {
  test(`a running cell is complete after the bridge was unreachable ${when}`, async ({ page }) => {
    await using lab = await StockLab.start(sockets);
    const file = (name: string): string => join(lab.rootDir, name);
    await writeFile(file('count.ipynb'), JSON.stringify(notebook()));
    await page.goto(lab.notebookUrl('count.ipynb'));
    await expect.poll(async () => (await currentKernel(page))?.name).toBe('python3');
    await expect
      .poll(async () => (await lab.kernels()).map(kernel => kernel.execution_state))
      .toEqual(['idle']);
    expect(await tpulabPlugins(page)).toEqual([]);

    await run(page, 'notebook:run-cell');
    const text = async (): Promise<string> => (await readCells(page))[0]?.text ?? '';
    await expect.poll(text).toContain(`line ${PART - 1}\n`);

    await lab.connection.outage(outageMs, async () => {
      await writeFile(file(`gate-${PART}`), '');
      await waitUntil('The second third', async () => existsSync(file(`printed-${2 * PART}`)) || null);
    });
    // Output printed now arrives in the middle of the reconnection.
    await writeFile(file(`gate-${2 * PART}`), '');
    await writeFile(file(`gate-${3 * PART}`), '');

    await expect
      .poll(async () => (await readCells(page))[0]?.executionCount, { timeout: RECONNECT_DEADLINE_MS })
      .toBe(1);
    const [cell] = await readCells(page);
    expect(cell?.text).toBe(EXPECTED);
    expect(cell?.mimeTypes.toSorted()).toEqual(['text/html', 'text/plain', 'text/plain']);
    expect(cell?.errors).toEqual([]);

    await run(page, 'docmanager:save');
    const saved = async (): Promise<SavedCell | undefined> =>
      savedCells(await readFile(file('count.ipynb'), 'utf8'))[0];
    await expect.poll(async () => (await saved())?.execution_count).toBe(1);
    expect((await saved())?.outputs.map(({ text: lines }) => lines?.join('') ?? '').join('')).toBe(EXPECTED);

    // The kernel is the same one, and answers again.
    await run(page, 'notebook:run-cell');
    await expect.poll(async () => (await readCells(page))[0]?.executionCount).toBe(2);
    expect(await text()).toBe(EXPECTED);
  });
}

interface SavedCell {
  readonly execution_count: number | null;
  readonly outputs: readonly { readonly text?: readonly string[] }[];
}

/** The saved cells; none while the file is being written, because Lab empties it first. */
function savedCells(text: string): readonly SavedCell[] {
  try {
    return (JSON.parse(text) as { cells: SavedCell[] }).cells;
  } catch {
    return [];
  }
}

function notebook(): object {
  return {
    cells: [
      { cell_type: 'code', id: 'count', metadata: {}, source: CELL, outputs: [], execution_count: null }
    ],
    metadata: { kernelspec: { name: 'python3', display_name: 'Python 3 (ipykernel)', language: 'python' } },
    nbformat: 4,
    nbformat_minor: 5
  };
}

/** Runs a command without waiting for it in the page: a running cell would keep the call open. */
async function run(page: Page, command: string): Promise<void> {
  await page.evaluate(id => void window.jupyterapp.commands.execute(id), command);
}

async function tpulabPlugins(page: Page): Promise<string[]> {
  return page.evaluate(() => window.jupyterapp.listPlugins().filter(id => id.startsWith('@tpulab/')));
}
