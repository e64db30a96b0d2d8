/** Makes the images of the dialog: `TPULAB_SCREENSHOTS=1 npx playwright test -c ui-tests/playwright.config.ts connect-dialog`. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { IMAGES } from '../lab/paths.js';
import { BARE, HELD, NO_GCLOUD, RECENT, SETUPS, STATES } from './dialog-states.js';
import { expect, test } from './fixtures.js';
import { setTheme } from './lab-page.js';
import { markSimulated, requireFonts, useFonts } from './screenshot-page.js';
import { StandInAnswers } from './stand-in-answers.js';

test.use({ viewport: { width: 820, height: 680 }, deviceScaleFactor: 1.5 });

test('the dialog in its states', async ({ page }) => {
  // Another folder is for a review of all states, in both themes and at the width of a phone.
  requireFonts();
  const folder = process.env['TPULAB_IMAGES'] ?? IMAGES;
  await mkdir(folder, { recursive: true });
  const answers = await StandInAnswers.give(page);
  await page.goto('?reset');
  await expect(page.locator('[data-category="TPULab"]').first()).toBeVisible();
  const dialog = page.getByRole('dialog');
  const open = (args: { name?: string }): Promise<void> =>
    page.evaluate(given => void window.jupyterapp.commands.execute('tpulab:connect-remote', given), args);
  const close = async (): Promise<void> => {
    await dialog.getByRole('button', { name: 'Close' }).first().click();
    await expect(dialog).toBeHidden();
  };
  const shoot = async (name: string, isForDocs = false): Promise<void> => {
    await page.mouse.move(0, 0);
    await useFonts(page);
    const content = dialog.locator('.jp-Dialog-content');
    await markSimulated(content, 'Simulated machines');
    const take = (suffix: string): Promise<Buffer> =>
      content.screenshot({ path: join(folder, `connect-${name}${suffix}.png`), animations: 'disabled' });
    if (isForDocs) await take('');
    if (folder === IMAGES) return;
    for (const [theme, width] of [
      ['light', 820],
      ['dark', 820],
      ['high contrast', 820],
      ['light', 360],
      ['dark', 360]
    ] as const) {
      await setTheme(page, theme);
      await page.setViewportSize({ width, height: 680 });
      await take(`-${theme.replace(' ', '-')}-${width}`);
    }
    await setTheme(page, 'light');
    await page.setViewportSize({ width: 820, height: 680 });
  };

  await open({});
  await expect(dialog.getByRole('option', { name: /train-v6e/ })).toBeVisible();
  for (let step = 0; step < RECENT.length; step += 1) await page.keyboard.press('ArrowDown');
  await shoot('choose', true);
  await dialog.getByRole('button', { name: 'Options' }).click();
  await dialog.getByRole('combobox', { name: 'Search' }).fill('gcloud:queued-resource/us-east5-b/queue-7');
  await shoot('typed');
  await close();
  for (const [name, remote] of Object.entries(STATES)) {
    answers.report(remote);
    await open({ name: 'train-v6e' });
    if (name === 'done') await expect(dialog.getByText('14 files to copy')).toBeVisible();
    await expect(dialog.locator('.jp-TPULabDialog-foot')).toBeVisible();
    await shoot(name, ['question', 'progress', 'failure', 'done'].includes(name));
    await close();
  }
  answers.holders = HELD;
  await open({ name: 'train-v6e' });
  await expect(dialog.getByText('the TPU is in use')).toBeVisible();
  await shoot('held');
  await close();

  answers.candidates = NO_GCLOUD;
  [...RECENT, STATES.done].forEach(remote => answers.report(remote, true));
  await open({});
  await expect(dialog.getByText('Create a TPU VM.')).toBeVisible();
  await shoot('first-use');
  await close();

  answers.environments = BARE;
  for (const [name, creation] of Object.entries(SETUPS)) {
    answers.creation = creation;
    await page.evaluate(() => void window.jupyterapp.commands.execute('tpulab:set-up-environment'));
    if (name !== 'idle') await expect(dialog.getByRole('list', { name: 'Stages' })).toBeVisible();
    await shoot(`setup-${name}`);
    await close();
  }
});
