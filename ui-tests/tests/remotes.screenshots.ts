/** Makes the images of remotes: `TPULAB_SCREENSHOTS=1 npx playwright test -c ui-tests/playwright.config.ts remotes`. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { IMAGES } from '../lab/paths.js';
import { expect } from './fixtures.js';
import { setTheme } from './lab-page.js';
import { test, why } from './remote-fixtures.js';

test.skip(why !== null, why ?? '');
test.use({ viewport: { width: 1280, height: 860 } });

test('the dialog before, while and after it connects, and the tab of remotes', async ({ page, vm }) => {
  await mkdir(IMAGES, { recursive: true });
  await vm.laptop.know([], '');
  await page.goto('?reset');
  await page.locator('[data-category="TPULab"]').getByText('Connect to a TPU VM…').click();
  const dialog = page.getByRole('dialog');
  const choice = dialog.getByRole('button', { name: /^vm/ }).first();
  await expect(choice).toBeVisible();
  const shot = async (name: string): Promise<void> => {
    await page.mouse.move(0, 0);
    await page.screenshot({ path: join(IMAGES, `${name}.png`), animations: 'disabled' });
  };
  await shot('connect-choose');
  await choice.click();
  await expect(dialog.getByText(/fingerprint/i).first()).toBeVisible();
  await shot('connect-question');
  await dialog.getByRole('button', { name: 'It is right: connect' }).click();
  await expect(dialog.getByText('connected', { exact: true })).toBeVisible();
  await shot('connect-light');
  await setTheme(page, 'dark').catch(() => undefined);
  await shot('connect-dark');
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await page.evaluate(() =>
    window.jupyterapp.commands.execute('tpulab:remotes', { name: 'vm' }).then(() => undefined)
  );
  await expect(
    page.locator('.jp-TPULabRemotes').getByText('connected', { exact: true }).first()
  ).toBeVisible();
  await shot('remotes-dark');
});
