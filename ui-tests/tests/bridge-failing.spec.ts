/** A bridge that is missing, refuses or hangs neither delays Lab nor hides the Jupyter server's kernels. */
import { join } from 'node:path';
import { expect, test } from '@playwright/test';
import { CHECKOUT } from '../lab/paths.js';
import { expectStockKernelWorks } from './boot.js';
import { withLab } from './fixtures.js';
import { activePlugins } from './lab-page.js';

const FAILING = join(CHECKOUT, 'ui-tests', 'lab', 'failing-bridge.mjs');

const CASES = {
  'is not there': ['tpulab-that-does-not-exist'],
  'ends at once': [process.execPath, '-e', 'process.exit(3)'],
  'refuses connections': [process.execPath, FAILING, 'refusing'],
  'never answers': [process.execPath, FAILING, 'hanging'],
  'answers the health check and nothing else': [process.execPath, FAILING, 'halfHanging']
};

for (const [words, bridgeCommand] of Object.entries(CASES)) {
  // It waits for each of several requests in turn; a bridge that never answers is the shorter form.
  const tag = words === 'answers the health check and nothing else' ? ['@long'] : [];
  test(`Lab starts with stock kernels although the bridge ${words}`, { tag }, async ({ page }) => {
    await withLab({ galata: false, bridgeCommand }, async lab => {
      await expectStockKernelWorks(page, lab);
      // Our managers survived this; they are not stock managers loaded after a failure of ours.
      expect(await activePlugins(page)).toContain('@tpulab/labextension:session-manager');
    });
  });
}
