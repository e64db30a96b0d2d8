/** The panel where there is nothing to show yet: it states what to do, and axe reports no violation. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checkAccessibility } from './accessibility.js';
import { expect, test } from './fixtures.js';
import { openNotebook, setTheme } from './lab-page.js';
import { notebookText } from './notebook-file.js';
import { SECTIONS, TPULabPanel } from './tpulab-panel.js';

for (const theme of ['light', 'dark'] as const) {
  test(`a kernel that has not used JAX is shown how to begin, ${theme}`, async ({ lab, page }) => {
    await writeFile(join(lab.rootDir, 'fresh.ipynb'), notebookText());
    await openNotebook(page, 'fresh.ipynb');
    await setTheme(page, theme);
    const panel = new TPULabPanel(page);
    await panel.open();
    await expect(await panel.section('Where the time goes')).toContainText('tpulab.steps(');
    await expect(await panel.section('Compilations')).toContainText('Nothing compiled yet');
    await checkAccessibility(page, panel.root);
  });
}

test('a kernel of the Jupyter server is marked as not on the bridge', async ({ lab, page }) => {
  await writeFile(join(lab.rootDir, 'local.ipynb'), notebookText([], 'python3'));
  await openNotebook(page, 'local.ipynb');
  const panel = new TPULabPanel(page);
  await panel.open();
  await expect(panel.root).toContainText(/TPULab server/);
  // The machine is shown regardless: it needs no kernel.
  await expect(await panel.section('Devices')).toContainText('This machine has no TPU');
  for (const name of SECTIONS.filter(section => section !== 'Devices'))
    await expect(panel.root.getByRole('region', { name, exact: true })).toHaveCount(0);
  await expect(page.locator('#jp-main-statusbar')).toContainText('local');
  await checkAccessibility(page, panel.root);
});
