/** JupyterLab with other people's extensions: git, nbdime, lsp, collaboration, AI, Jupytext (`npm run test:smoke`). */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LESSON } from '../lab/paths.js';
import { expect, test } from './fixtures.js';
import { currentKernel, openNotebook, readCells } from './lab-page.js';
import { expectLesson, runLesson } from './lesson-outputs.js';
import { notebookText } from './notebook-file.js';
import { TPULabPanel } from './tpulab-panel.js';

/** Runs until the file exists. */
const GATED = (gate: string): string => `import pathlib, time
for n in range(10):
    print("line", n, flush=True)
    while n == 4 and not pathlib.Path(${JSON.stringify(gate)}).exists():
        time.sleep(0.02)
print("done")`;
const LINES = (end: number): string => Array.from({ length: end }, (_, n) => `line ${n}\n`).join('');

test('boots, runs the first notebook, and shows its panel', async ({ page }) => {
  await openNotebook(page, LESSON);
  await expect.poll(async () => (await currentKernel(page))?.name).toBe('tpulab-jax');
  await runLesson(page);
  expectLesson(await readCells(page));
  const panel = new TPULabPanel(page);
  await panel.open();
  await expect(await panel.section('Run')).toContainText('finished');
});

test('a running cell continues after a reload, and two users see each output once', async ({
  lab,
  page,
  context
}) => {
  const gate = join(lab.rootDir, 'go');
  await writeFile(join(lab.rootDir, 'shared.ipynb'), notebookText([GATED(gate)], 'tpulab-jax'));
  await openNotebook(page, 'shared.ipynb');
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
  const text = async (of = page): Promise<string | undefined> => (await readCells(of))[0]?.text;
  await expect.poll(() => text()).toBe(LINES(5));
  await openNotebook(page, 'shared.ipynb');
  await expect.poll(() => text()).toBe(LINES(5));
  const other = await context.newPage();
  await other.goto(`${lab.url}/lab/workspaces/other/tree/shared.ipynb?reset`);
  await expect.poll(async () => (await currentKernel(other))?.name).toBeTruthy();
  await expect.poll(() => text(other as typeof page)).toBe(LINES(5));
  await writeFile(gate, '');
  for (const each of [page, other as typeof page]) {
    await expect.poll(() => text(each)).toBe(`${LINES(10)}done\n`);
  }
  await other.close();
});

test('a text notebook of Jupytext continues after a reload', async ({ lab, page }) => {
  const gate = join(lab.rootDir, 'go-text');
  const header =
    '# ---\n# jupyter:\n#   kernelspec:\n#     name: tpulab-jax\n#     display_name: JAX\n#     language: python\n# ---\n\n';
  await writeFile(join(lab.rootDir, 'text.py'), `${header}# %%\n${GATED(gate)}\n`);
  const open = async (): Promise<void> => {
    await page.goto('?reset');
    await page.evaluate(() =>
      window.jupyterapp.commands
        .execute('docmanager:open', { path: 'text.py', factory: 'Jupytext Notebook' })
        .then(() => undefined)
    );
    await expect.poll(async () => (await currentKernel(page))?.name).toBeTruthy();
  };
  const text = async (): Promise<string | undefined> => (await readCells(page))[0]?.text;
  await open();
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
  await expect.poll(text).toBe(LINES(5));
  await open();
  await expect.poll(text).toBe(LINES(5));
  await writeFile(gate, '');
  await expect.poll(text).toBe(`${LINES(10)}done\n`);
});

/** Progress of tqdm and an anywidget counter with bytes, in one cell that is still running when the page is opened again. */
const WIDGETS = (packages: string, gate: string): string => `import pathlib, sys, time
sys.path.append(${JSON.stringify(packages)})
import anywidget, tpulab, traitlets
from tqdm.notebook import tqdm
class Counter(anywidget.AnyWidget):
    _esm = """export default { render({ model, el }) {
      const button = document.createElement("button");
      const show = () => { button.textContent = "counted " + model.get("count") + " of " + model.get("data").byteLength; };
      button.onclick = () => { model.set("count", model.get("count") + 1); model.save_changes(); };
      model.on("change:count", show); show(); el.append(button);
    } }"""
    count = traitlets.Int(3).tag(sync=True)
    data = traitlets.Bytes(bytes(7)).tag(sync=True)
counter = tpulab.live(Counter())
display(counter.widget)
for n in tqdm(range(4), desc="batches", mininterval=0, miniters=1):
    while n == 2 and not pathlib.Path(${JSON.stringify(gate)}).exists():
        time.sleep(0.02)
while counter.widget.count == 3:
    counter.poll()
    time.sleep(0.02)
print("counted", counter.widget.count)`;

test('tqdm and a widget of anywidget are back after a reload in mid-cell, and act', async ({ lab, page }) => {
  const packages = process.env['TPULAB_SMOKE_WIDGETS'] ?? '';
  const gate = join(lab.rootDir, 'go-widgets');
  await writeFile(join(lab.rootDir, 'widgets.ipynb'), notebookText([WIDGETS(packages, gate)], 'tpulab-jax'));
  const cell = page.locator('.jp-Notebook .jp-CodeCell').first();
  const counter = cell.getByRole('button', { name: /^counted/ });
  await openNotebook(page, 'widgets.ipynb');
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
  for (const again of [false, true]) {
    // Its document is shared: the room has the shown content, and a manual save may find a newer file.
    if (again) await openNotebook(page, 'widgets.ipynb');
    await expect(counter).toHaveText('counted 3 of 7');
    await expect(cell.locator('.jp-OutputArea')).toContainText(/batches:\s+50%/);
    await expect(cell.locator('.jp-OutputArea')).toContainText('2/4');
  }
  await writeFile(gate, '');
  await expect(cell.locator('.jp-OutputArea')).toContainText('4/4');
  await counter.click();
  await expect(counter).toHaveText('counted 4 of 7');
  await expect.poll(async () => (await readCells(page))[0]?.text).toContain('counted 4');
});
