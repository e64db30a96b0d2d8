/** Notebooks in the list of the session page: renamed, moved and deleted, by keyboard. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { checkAccessibility } from './accessibility.js';
import { notebookText } from './notebook-file.js';
import { complaintsOf, expect, open, test } from './session-steps.js';

test('are renamed, moved and deleted by keyboard, in the list and in the notebook itself', async ({
  page,
  gateway
}) => {
  const complaints = complaintsOf(page);
  await gateway.write('one.ipynb', notebookText(['1']));
  await gateway.write('two.ipynb', notebookText(['2']));
  expect((await gateway.ask('bridge/v1/folders/kept', { method: 'POST' })).status).toBe(201);
  await page.goto(gateway.link());
  const notebook = (name: string) => page.getByRole('link', { name, exact: true });
  const dialog = page.getByRole('dialog');
  /** With the keys of its menu, until it asks. */
  const choose = async (name: string, at: number): Promise<void> => {
    await page.getByRole('button', { name: `More for ${name}` }).press('Enter');
    await expect(page.getByRole('menuitem', { name: 'Rename…' })).toBeFocused();
    for (let step = 0; step < at; step += 1) await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await expect(dialog).toBeVisible();
  };

  await choose('one.ipynb', 0);
  await page.keyboard.type('first');
  await page.keyboard.press('Enter');
  await expect(notebook('first.ipynb')).toBeVisible();
  await expect(notebook('one.ipynb')).toBeHidden();

  await choose('first.ipynb', 1);
  await expect(dialog.getByText('Move first.ipynb')).toBeVisible();
  await checkAccessibility(page, dialog);
  await page.keyboard.press('Control+a');
  await page.keyboard.type('/kept');
  await page.keyboard.press('Enter');
  await expect(notebook('first.ipynb')).toBeHidden();
  expect(JSON.parse(await gateway.read('kept/first.ipynb'))).toBeTruthy();

  // Onto what is there, nothing is moved; the page says why.
  await gateway.write('first.ipynb', notebookText(['other']));
  await page.reload();
  await choose('first.ipynb', 1);
  await page.keyboard.press('Control+a');
  await page.keyboard.type('kept');
  await page.keyboard.press('Enter');
  await expect(dialog.getByText('first.ipynb was not moved')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(notebook('first.ipynb')).toBeVisible();

  await choose('two.ipynb', 2);
  await page.keyboard.press('Escape');
  await expect(notebook('two.ipynb')).toBeVisible();
  await choose('two.ipynb', 2);
  await expect(dialog.getByText('Delete two.ipynb?')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(notebook('two.ipynb')).toBeHidden();
  await page.getByRole('button', { name: 'More for first.ipynb' }).click();
  await checkAccessibility(page, page.locator('.tpl-Home'));

  // From the notebook: its kernel ends with it, and nothing is written again.
  await open(page, gateway, 'kept/first.ipynb');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('Delete…');
  await page.keyboard.press('Enter');
  await expect(dialog.getByText('Its kernel is shut down.')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: 'Notebooks' })).toBeVisible();
  expect(await (await gateway.ask('api/sessions')).json()).toEqual([]);
  const notebooks = join(gateway.folder, 'notebooks');
  expect(await readdir(join(notebooks, 'kept'))).toEqual([]);
  const trashed = await readdir(join(notebooks, '.tpulab-trash'), { recursive: true });
  expect(trashed.filter(name => name.endsWith('.ipynb')).map(name => name.split('/').at(-1))).toEqual(
    expect.arrayContaining(['two.ipynb', 'first.ipynb'])
  );
  // The browser reports the move that was refused.
  expect(complaints.filter(text => !text.includes('409'))).toEqual([]);
});
