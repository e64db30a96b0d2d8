/** Notebook 7 with other people's extensions (`npm run test:smoke`). */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LESSON } from '../lab/paths.js';
import { expect, test } from './fixtures.js';
import { currentKernel, readCells } from './lab-page.js';
import { expectLesson, runLesson } from './lesson-outputs.js';
import { notebookText } from './notebook-file.js';
import { TPULabPanel } from './tpulab-panel.js';

test.use({ labOptions: { galata: true, app: 'notebook' } });

test('runs the first notebook and shows the panel', async ({ lab, page }) => {
  await page.goto(`${lab.url}/notebooks/${LESSON}`);
  await expect.poll(async () => (await currentKernel(page))?.name).toBe('tpulab-jax');
  await runLesson(page);
  expectLesson(await readCells(page));
  await page.evaluate(() => window.jupyterapp.commands.execute('tpulab:show-panel').then(() => undefined));
  const panel = new TPULabPanel(page);
  await expect(panel.root).toBeVisible();
  await expect(await panel.section('Run')).toContainText('finished');
});

test('a running cell continues after a reload', async ({ lab, page }) => {
  const gate = join(lab.rootDir, 'go');
  const code = `import pathlib, time
print("before", flush=True)
while not pathlib.Path(${JSON.stringify(gate)}).exists():
    time.sleep(0.02)
print("after")`;
  await writeFile(join(lab.rootDir, 'gate.ipynb'), notebookText([code], 'tpulab-jax'));
  const open = async (): Promise<void> => {
    await page.goto(`${lab.url}/notebooks/gate.ipynb`);
    await expect.poll(async () => (await currentKernel(page))?.name).toBe('tpulab-jax');
  };
  const text = async (): Promise<string | undefined> => (await readCells(page))[0]?.text;
  await open();
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
  await expect.poll(text).toBe('before\n');
  await page.evaluate(() => window.jupyterapp.commands.execute('docmanager:save').then(() => undefined));
  await open();
  await expect.poll(text).toBe('before\n');
  await writeFile(gate, '');
  await expect.poll(text).toBe('before\nafter\n');
});
