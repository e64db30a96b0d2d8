/** Checks that Lab has started and is usable, whatever is wrong with our part. */
import { expect, type Page } from '@playwright/test';
import type { LabServer } from '../lab/lab-server.js';
import { currentKernel, runInKernel } from './lab-page.js';

export async function expectStockKernelWorks(page: Page, lab: LabServer): Promise<void> {
  // Several cases share a Lab: `reset` prevents the previous case's documents from being opened again.
  const start = new URL(lab.loginUrl);
  start.searchParams.set('reset', '');
  await page.goto(start.href);
  await expect(page.getByRole('tab', { name: 'Launcher' })).toBeVisible();
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await page
    .getByRole('button', { name: 'Python 3 (ipykernel)' })
    .and(page.locator('[data-category="Notebook"]'))
    .click();
  await expect.poll(async () => (await currentKernel(page))?.name).toBe('python3');
  expect(new URL((await currentKernel(page))?.baseUrl ?? '').port).toBe(new URL(lab.url).port);
  expect(await runInKernel(page, 'print(6 * 7)')).toBe('42\n');
}
