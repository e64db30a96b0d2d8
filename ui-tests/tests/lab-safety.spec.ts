/** A user's own notebooks in JupyterLab with TPULab: an unsavable change is preserved, and the end of a kernel is reported. */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from './fixtures.js';
import { currentKernel, openNotebook, readCells, setSource } from './lab-page.js';
import { ALONE, notebookText } from './notebook-file.js';

test('a notebook that cannot be saved can be downloaded as it is in the page', async ({ lab, page }) => {
  const file = join(lab.rootDir, 'place.ipynb');
  await writeFile(file, notebookText(['first']));
  await openNotebook(page, 'place.ipynb');
  await setSource(page, 0, 'unsaved');
  await rm(file);
  await mkdir(file);
  await page.evaluate(() => void window.jupyterapp.commands.execute('docmanager:save'));
  await expect(page.getByText(/place\.ipynb is not saved\. .+ All cells and outputs/)).toBeVisible();
  await expect(page.getByRole('button', { name: 'Save elsewhere…' })).toBeVisible();
  const downloading = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download' }).click();
  const download = await downloading;
  expect(download.suggestedFilename()).toBe('place.ipynb');
  expect(await readFile(await download.path(), 'utf8')).toContain('"unsaved"');
  await rm(file, { recursive: true });
  await writeFile(file, notebookText(['first']));
});

test('a changed notebook whose folder was renamed shows it above the cells, and no dialog covers them', async ({
  lab,
  page
}) => {
  const [before, after] = ['before', 'after'].map(name => join(lab.rootDir, name)) as [string, string];
  await mkdir(before);
  await writeFile(join(before, 'moved.ipynb'), notebookText(['first']));
  await openNotebook(page, 'before/moved.ipynb');
  await setSource(page, 0, 'unsaved');
  await rename(before, after);
  await page.evaluate(() => void window.jupyterapp.commands.execute('docmanager:save'));
  await expect(page.getByText(/moved\.ipynb is not saved\. .*All cells and outputs are still/)).toBeVisible();
  await expect(page.getByText('File Save Error')).toHaveCount(0);
  await rename(after, before);
  await page.evaluate(() => void window.jupyterapp.commands.execute('docmanager:save'));
  await expect(page.getByText(/is not saved/)).toBeHidden();
  expect(await readFile(join(before, 'moved.ipynb'), 'utf8')).toContain('unsaved');
});

test('a cell whose kernel ended while no page was open is filled, and the notice names the cause', async ({
  lab,
  page
}) => {
  await writeFile(join(lab.rootDir, 'alone.ipynb'), notebookText([ALONE]));
  await openNotebook(page, 'alone.ipynb');
  const { id } = (await currentKernel(page))!;
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
  await expect.poll(async () => (await readCells(page))[0]?.text).toBe('begun\n');
  await page.goto('about:blank');
  const { url, token } = await lab.reach();
  const get = async (path: string): Promise<string> => {
    const headers = { authorization: `token ${token}` };
    return (await fetch(new URL(path, url), { headers })).text();
  };
  await writeFile(join(lab.rootDir, 'gone'), '');
  await expect.poll(() => get(`bridge/v1/kernels/${id}/outputs`)).toContain('last words');
  await writeFile(join(lab.rootDir, 'over'), '');
  await expect.poll(() => get(`api/kernels/${id}`)).toContain('exited with code 3');
  await openNotebook(page, 'alone.ipynb');
  await expect.poll(async () => (await readCells(page))[0]?.text).toBe('begun\nlast words\n');
  await expect(page.getByText('The kernel ended: exited with code 3.')).toBeVisible();
});
