/**
 * JupyterLab of users without TPULab, with its kernels at a bridge (`npm run conformance -- stock-lab`). Its
 * Python is named by `TPULAB_STOCK_LAB`; our extension is not installed there.
 */
import { defineConfig } from '@playwright/test';
import common from '../playwright.config.js';

export default defineConfig(common, {
  testDir: '.',
  testMatch: '*.spec.ts',
  outputDir: '../test-results/stock-lab',
  // A minute without a connection, and Lab's own retries after it.
  timeout: 600_000
});
