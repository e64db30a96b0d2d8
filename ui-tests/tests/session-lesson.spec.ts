/** The getting-started notebook in the session page, from top to bottom, on a real kernel. */
import { readNotebookWithoutOutputs } from '../lab/copy-notebooks.js';
import { LESSON } from '../lab/paths.js';
import { expectLesson } from './lesson-outputs.js';
import { cell, expect, open, runAll, test } from './session-steps.js';

test('notebook 00 runs from top to bottom, and its slider works', async ({ page, gateway }) => {
  await gateway.write(LESSON, JSON.stringify(await readNotebookWithoutOutputs(LESSON)));
  await open(page, gateway, LESSON);
  expectLesson(await runAll(page, gateway, LESSON));
  const bar = page.getByRole('contentinfo', { name: 'Run' });
  await expect(bar.getByRole('img', { name: /^Where the time went: device / })).toBeVisible();
  const handle = page.getByRole('feed', { name: 'Cells' }).getByRole('slider');
  await handle.scrollIntoViewIfNeeded();
  // The last cell has set it.
  await expect(page.getByText('Python sees a learning rate of 0.050')).toBeVisible();
  await handle.press('ArrowRight');
  await expect(page.getByText('Python sees a learning rate of 0.050')).toBeHidden();
});

test('the tour shows a loop, a recompilation, and a reload in the middle of a cell', async ({
  page,
  gateway
}) => {
  await page.goto(gateway.link());
  await page.getByRole('button', { name: /^Tour/ }).click();
  await expect(page.getByRole('button', { name: /^Runtime: .* connected, / })).toBeVisible();
  const { loop, again, counting } = { loop: cell(page, 0), again: cell(page, 1), counting: cell(page, 2) };
  await loop.locator('.cm-content').click();
  for (let at = 0; at < 5; at += 1) await page.keyboard.press('Shift+Enter');
  const bar = page.getByRole('contentinfo', { name: 'Run' });
  await expect(bar.getByRole('img', { name: /^Where the time went: input / })).toBeVisible();
  await expect(again.locator('.jp-InputPrompt')).toHaveText('[2]:');
  await bar.getByRole('button', { name: 'Open panel' }).click();
  const panel = page.getByRole('complementary', { name: 'Run and devices' });
  await expect(panel.getByText('train_step').first()).toBeVisible();
  await expect(counting.locator('.jp-OutputArea-output')).toContainText('1 2 ');
  await page.reload();
  const numbers = Array.from({ length: 30 }, (_, at) => at + 1).join(' ');
  await expect(counting.locator('.jp-OutputArea-output')).toContainText(numbers);
});
