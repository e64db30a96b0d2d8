/** The getting-started notebook in the session page, from top to bottom, on a real kernel. */
import { readNotebookWithoutOutputs } from '../lab/copy-notebooks.js';
import { LESSON } from '../lab/paths.js';
import { expectLesson } from './lesson-outputs.js';
import { expect, open, runAll, test } from './session-steps.js';

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
