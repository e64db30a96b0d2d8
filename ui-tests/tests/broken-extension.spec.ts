/** However our extension fails, Lab starts, and notebooks run on the kernels of the Jupyter server. */
import { expect, type Page, test } from '@playwright/test';
import { LabServer } from '../lab/lab-server.js';
import { BROKEN, type Breakage } from '../lab/labextension.js';
import { expectStockKernelWorks } from './boot.js';

const CASES: Record<Exclude<Breakage, 'absent'>, string> = {
  entryThrows: 'its script throws',
  entryMissing: 'its script is missing',
  chunksMissing: 'what its script imports is missing',
  serviceThrows: 'its service plugins throw',
  uiThrows: 'its user interface plugins throw'
};

/** Signs in the page that the damage took effect: an error that names it, or one of our files that was missing. */
function watchDamage(page: Page): string[] {
  const signs: string[] = [];
  page.on('console', message => {
    if (message.text().includes(BROKEN)) signs.push(message.text());
  });
  page.on('pageerror', error => {
    if (error.message.includes(BROKEN)) signs.push(error.message);
  });
  page.on('response', response => {
    if (response.status() === 404 && response.url().includes('@tpulab')) signs.push(response.url());
  });
  return signs;
}

let lab: LabServer;
test.beforeAll(async () => {
  lab = await LabServer.start({ galata: false });
});
test.afterAll(() => lab.stop());

for (const [breakage, words] of Object.entries(CASES) as [Breakage, string][]) {
  test(`Lab starts with stock kernels although ${words}`, async ({ page }) => {
    const signs = watchDamage(page);
    await lab.breakExtension(breakage);
    await expectStockKernelWorks(page, lab);
    expect(signs).not.toEqual([]);
  });
}
