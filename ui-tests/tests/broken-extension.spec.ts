/** However our extension fails, Lab starts, and notebooks run on the kernels of the Jupyter server. */
import { test } from '@playwright/test';
import type { Breakage } from '../lab/labextension.js';
import { expectStockKernelWorks } from './boot.js';
import { withLab } from './fixtures.js';

const CASES: Record<Breakage, string> = {
  entryThrows: 'its script throws',
  entryMissing: 'its script is missing',
  chunksMissing: 'what its script imports is missing',
  serviceThrows: 'its service plugins throw',
  uiThrows: 'its user interface plugins throw'
};

for (const [breakage, words] of Object.entries(CASES) as [Breakage, string][]) {
  test(`Lab starts with stock kernels although ${words}`, async ({ page }) => {
    await withLab({ galata: false, breakage }, async lab => {
      await expectStockKernelWorks(page, lab);
    });
  });
}
