/**
 * Makes the images of the documents: `TPULAB_SCREENSHOTS=1 npx playwright test -c ui-tests/playwright.config.ts images`.
 * They are looked at by people, not compared: fonts and step times differ from machine to machine.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { IMAGES, LESSON } from '../lab/paths.js';
import { expect, test } from './fixtures.js';
import { openNotebook, setTheme } from './lab-page.js';
import { SECTIONS, TPULabPanel } from './tpulab-panel.js';

test.use({ viewport: { width: 1440, height: 960 }, deviceScaleFactor: 1.5 });

test('the getting-started notebook with the panel, light and dark', async ({ page }) => {
  await mkdir(IMAGES, { recursive: true });
  await openNotebook(page, LESSON);
  const panel = new TPULabPanel(page);
  await panel.open();
  await page.sidebar.close('left');
  expect(await page.notebook.run()).toBe(true);
  for (const name of SECTIONS) await panel.section(name);
  const run = await panel.section('Run');
  await expect(run).toContainText('full batches');
  await expect(run).toContainText('finished');

  const heading = page.getByRole('heading', { name: '13. Loss and predictions' });
  for (const theme of ['light', 'dark'] as const) {
    await setTheme(page, theme);
    await heading.evaluate(element => {
      element.scrollIntoView({ block: 'start' });
    });
    await expect(heading).toBeInViewport();
    await page.mouse.move(0, 0);
    await page.screenshot({ path: join(IMAGES, `lab-${theme}.png`), animations: 'disabled' });
    await panel.root.screenshot({ path: join(IMAGES, `panel-${theme}.png`), animations: 'disabled' });
  }
});
