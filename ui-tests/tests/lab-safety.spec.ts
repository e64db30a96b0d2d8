/** A person's own notebooks in JupyterLab with TPULab: what cannot be saved is kept, and the end of a kernel is told. */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from './fixtures.js';
import { currentKernel, openNotebook, readCells, setSource } from './lab-page.js';
import { notebookText } from './notebook-file.js';

test('a notebook that cannot be saved can be downloaded as it is in the page', async ({ lab, page }) => {
  const file = join(lab.rootDir, 'place.ipynb');
  await writeFile(file, notebookText(['first']));
  await openNotebook(page, 'place.ipynb');
  await setSource(page, 0, 'unsaved');
  await rm(file);
  await mkdir(file);
  await page.evaluate(() => void window.jupyterapp.commands.execute('docmanager:save'));
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  await expect(page.getByText('place.ipynb is not saved.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Save elsewhere…' })).toBeVisible();
  const downloading = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download' }).click();
  const download = await downloading;
  expect(download.suggestedFilename()).toBe('place.ipynb');
  expect(await readFile(await download.path(), 'utf8')).toContain('"unsaved"');
  await rm(file, { recursive: true });
  await writeFile(file, notebookText(['first']));
});

test('a cell whose kernel ended while no page was open is filled, and the end is told', async ({
  lab,
  page
}) => {
  const code = `import os, pathlib, time
print("begun", flush=True)
while not pathlib.Path("gone").exists(): time.sleep(0.05)
print("last words", flush=True)
os._exit(3)`;
  await writeFile(join(lab.rootDir, 'alone.ipynb'), notebookText([code]));
  await openNotebook(page, 'alone.ipynb');
  const { id } = (await currentKernel(page))!;
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
  await expect.poll(async () => (await readCells(page))[0]?.text).toBe('begun\n');
  await page.goto('about:blank');
  await writeFile(join(lab.rootDir, 'gone'), '');
  const { url, token } = await lab.reach();
  const kernel = async (): Promise<string | undefined> => {
    const headers = { authorization: `token ${token}` };
    const response = await fetch(new URL(`api/kernels/${id}`, url), { headers });
    return ((await response.json()) as { last_end?: string }).last_end;
  };
  await expect.poll(kernel).toBe('exited with code 3');
  await openNotebook(page, 'alone.ipynb');
  await expect.poll(async () => (await readCells(page))[0]?.text).toBe('begun\nlast words\n');
  await expect(page.getByText('The kernel ended: exited with code 3.')).toBeVisible();
});
