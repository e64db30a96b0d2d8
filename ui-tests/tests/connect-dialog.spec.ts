/** The dialog in every state, width and theme: nothing is cut, the footer is in view, and axe reports no violation. */
import { checkAccessibility } from './accessibility.js';
import { expectNothingClipped } from './clipped-parts.js';
import { BARE, HELD, NO_GCLOUD, RECENT, SETUPS, STATES } from './dialog-states.js';
import { expect, test } from './fixtures.js';
import { setTheme } from './lab-page.js';
import { StandInAnswers } from './stand-in-answers.js';

const WIDTHS = [360, 520, 800, 1_600] as const;
/** The other themes differ in colours, not in sizes. */
const THEMES = ['dark', 'high contrast', 'light'] as const;

test(
  'no part of it is cut in any state, from 360 to 1,600 px, and axe finds nothing in three themes',
  { tag: '@long' },
  async ({ page }) => {
    const answers = await StandInAnswers.give(page);
    await page.goto('?reset');
    await expect(page.locator('[data-category="TPULab"]').getByText('my-tpu').first()).toBeVisible();
    const dialog = page.getByRole('dialog');
    const open = async (name?: string): Promise<void> => {
      await page.evaluate(
        args => void window.jupyterapp.commands.execute('tpulab:connect-remote', args),
        name === undefined ? {} : { name }
      );
      await expect(dialog).toBeVisible();
    };
    const close = async (): Promise<void> => {
      await dialog.getByRole('button', { name: 'Close' }).first().click();
      await expect(dialog).toBeHidden();
    };
    const themes = [...THEMES];
    const check = async (what: string): Promise<void> => {
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 640 });
        await expectNothingClipped(page, `${what}, ${width} px`);
      }
      await page.setViewportSize({ width: 800, height: 640 });
      const frame = dialog.locator('.jp-TPULabDialog-frame');
      for (const theme of themes) {
        await setTheme(page, theme);
        await checkAccessibility(page, frame);
      }
      // The next state starts in the present theme.
      themes.reverse();
    };

    await open();
    await expect(dialog.getByRole('option', { name: /train-v6e/ })).toBeVisible();
    await dialog.getByRole('button', { name: 'Options' }).click();
    await check('choose');
    await dialog.getByRole('combobox', { name: 'Search' }).fill('gcloud:queued-resource/us-east5-b/queue-7');
    await expect(dialog.getByRole('option', { name: /Connect to queue-7/ })).toBeVisible();
    await check('typed');
    await close();

    answers.candidates = NO_GCLOUD;
    RECENT.forEach(remote => answers.report(remote, true));
    await open();
    await expect(dialog.getByText('gcloud auth login')).toBeVisible();
    await expect(dialog.getByRole('option', { name: /my-tpu/ })).toHaveCount(0);
    await expect(dialog.getByText('Create a TPU VM.')).toBeVisible();
    await check('first use');
    await close();

    for (const [name, remote] of Object.entries(STATES)) {
      answers.report(remote);
      await open('train-v6e');
      await expect(dialog.getByText('train-v6e').first()).toBeVisible();
      if (name === 'done') await expect(dialog.getByText('14 files to copy')).toBeVisible();
      await check(name);
      await close();
    }

    answers.holders = HELD;
    await open('train-v6e');
    await expect(dialog.getByText('the TPU is in use')).toBeVisible();
    await check('held');
    await close();

    answers.environments = BARE;
    for (const [name, creation] of Object.entries(SETUPS)) {
      answers.creation = creation;
      await page.evaluate(() => void window.jupyterapp.commands.execute('tpulab:set-up-environment'));
      await expect(dialog.getByRole('heading', { name: /^Set up JAX/ })).toBeVisible();
      if (name !== 'idle') await expect(dialog.getByRole('list', { name: 'Stages' })).toBeVisible();
      await check(`setup ${name}`);
      await close();
    }
  }
);
