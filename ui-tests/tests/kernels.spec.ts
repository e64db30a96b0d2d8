/** Kernels of the bridge and of the Jupyter server side by side in one page. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import { expect, test } from './fixtures.js';
import { currentKernel, openNotebook, runInKernel } from './lab-page.js';
import { notebookText } from './notebook-file.js';

const BRIDGE_KERNEL = 'JAX (XLA) on this machine';
const STOCK_KERNEL = 'Python 3 (ipykernel)';

/** Chooses another kernel in Lab's own dialog. */
async function changeKernel(page: IJupyterLabPageFixture, from: string, to: string): Promise<void> {
  await page.getByRole('button', { name: from, exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('combobox').selectOption({ label: to });
  await dialog.getByRole('button', { name: 'Select Kernel' }).click();
  await expect(page.getByRole('button', { name: to, exact: true })).toBeVisible();
}

/** The Python that answers: the environment is part of its path. */
async function pythonPrefix(page: IJupyterLabPageFixture): Promise<string> {
  return (await runInKernel(page, 'import sys; print(sys.prefix)')).trim();
}

test('a card of the launcher opens a notebook on a kernel of the bridge, and Help the documentation', async ({
  lab,
  page
}) => {
  await page.goto('?reset');
  await page.locator('[data-category="TPULab"]').getByText(BRIDGE_KERNEL).click();
  await expect.poll(async () => (await currentKernel(page))?.name).toBe('tpulab-jax');
  const { url } = await lab.gateway();
  expect(new URL((await currentKernel(page))?.baseUrl ?? '').port).toBe(new URL(url).port);
  expect(await runInKernel(page, 'print(6 * 7)')).toBe('42\n');
  const opened = page.context().waitForEvent('page');
  await page.menu.clickMenuItem('Help>TPULab Documentation');
  const documentation = await opened;
  // A checkout may have no built site: the page then explains how to build it.
  await expect(documentation).toHaveTitle(/^TPULab/);
  expect(new URL(documentation.url())).toMatchObject({ port: new URL(url).port, pathname: '/docs/' });
  await documentation.close();
});

test('a card of the launcher copies the lessons to the files, shows them, and keeps what was changed', async ({
  lab,
  page
}) => {
  await page.goto('?reset');
  const card = page.locator('[data-category="TPULab"]').getByText('Open the examples');
  await card.click();
  const files = page.locator('.jp-DirListing');
  const lesson = files.getByRole('listitem', { name: /00-getting-started\.ipynb/ });
  // The root folder has the lessons too: they are listed before the folder of the copies is shown.
  await expect(page.locator('.jp-FileBrowser .jp-BreadCrumbs')).toContainText('tpulab-lessons');
  await expect(lesson).toBeVisible();
  const file = join(lab.rootDir, 'tpulab-lessons', '00-getting-started.ipynb');
  await writeFile(file, notebookText(['print("mine")']));
  const copiedAgain = page.waitForResponse(
    answer => answer.request().method() === 'POST' && answer.url().endsWith('/bridge/v1/examples')
  );
  await card.click();
  await copiedAgain;
  await lesson.dblclick();
  await expect.poll(async () => (await currentKernel(page))?.name).toBe('tpulab-jax');
  await expect(page.locator('.jp-NotebookPanel').getByText('print("mine")')).toBeVisible();
});

test('a card of the launcher opens the tour on a kernel of ours', async ({ page }) => {
  await page.goto('?reset');
  await page.locator('[data-category="TPULab"]').getByText('Take the tour').click();
  await expect(page.getByRole('heading', { name: 'TPULab in 90 seconds' })).toBeVisible();
  await expect.poll(async () => (await currentKernel(page))?.name).toBe('tpulab-jax');
});

test('a notebook moves from the bridge to the Jupyter server and back', async ({ lab, page }) => {
  await writeFile(join(lab.rootDir, 'moves.ipynb'), notebookText());
  await openNotebook(page, 'moves.ipynb');
  const onBridge = await pythonPrefix(page);

  await changeKernel(page, BRIDGE_KERNEL, STOCK_KERNEL);
  await expect.poll(async () => (await currentKernel(page))?.name).toBe('python3');
  expect(await pythonPrefix(page)).not.toBe(onBridge);
  await expect(page.locator('#jp-main-statusbar')).toContainText('local');

  await changeKernel(page, STOCK_KERNEL, BRIDGE_KERNEL);
  await expect.poll(async () => (await currentKernel(page))?.name).toBe('tpulab-jax');
  expect(await pythonPrefix(page)).toBe(onBridge);
  await expect(page.locator('#jp-main-statusbar')).toContainText('live');
});
