/** Files in the list of the session page: renamed, moved, deleted, uploaded and downloaded, mostly by keyboard. */
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { checkAccessibility } from './accessibility.js';
import { notebookText } from './notebook-file.js';
import { complaintsOf, expect, open, test, unwatched } from './session-steps.js';

test('are renamed, moved and deleted by keyboard, in the list and in the notebook itself', async ({
  page,
  gateway
}) => {
  const complaints = complaintsOf(page);
  const sessions = async (): Promise<string[]> => {
    const all = (await (await gateway.request('api/sessions')).json()) as { path: string }[];
    return all.map(({ path }) => path);
  };
  await gateway.write('one.ipynb', notebookText(['1']));
  await gateway.write('two.ipynb', notebookText(['2']));
  // A gateway that has just started answers 503 at first.
  await expect
    .poll(async () => (await gateway.request('bridge/v1/folders/kept', { method: 'POST' })).status)
    .toBe(201);
  // Sessions of other specs of this worker.
  const before = await sessions();
  await page.goto(gateway.link());
  const notebook = (name: string) => page.getByRole('link', { name, exact: true });
  const dialog = page.getByRole('dialog');
  /** With the keys of its menu, until the confirmation. */
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

  // A move never overwrites an existing file; the page gives the reason.
  await gateway.write('first.ipynb', notebookText(['other']));
  await page.reload();
  await choose('first.ipynb', 1);
  await page.keyboard.press('Control+a');
  await page.keyboard.type('kept');
  await page.keyboard.press('Enter');
  await expect(dialog.getByText('first.ipynb was not moved')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(notebook('first.ipynb')).toBeVisible();

  await choose('two.ipynb', 3);
  await page.keyboard.press('Escape');
  await expect(notebook('two.ipynb')).toBeVisible();
  await choose('two.ipynb', 3);
  await expect(dialog.getByText('Delete two.ipynb?')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(notebook('two.ipynb')).toBeHidden();
  await page.getByRole('button', { name: 'More for first.ipynb' }).click();
  await checkAccessibility(page, page.locator('.tpl-Home'));

  // From the notebook: its kernel ends with it, and nothing is written again. However long that takes, the page does not request the
  // file again, which a browser would report; it lists the folder.
  await open(page, gateway, 'kept/first.ipynb');
  await page.route('**/api/sessions/*', async route => {
    if (route.request().method() === 'DELETE') await page.waitForRequest('**/bridge/v1/folders/kept');
    await route.continue();
  });
  await page.keyboard.press('Control+k');
  await page.keyboard.type('Delete…');
  await page.keyboard.press('Enter');
  await expect(dialog.getByText('Its kernel is shut down.')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.locator('.tpl-Home').getByRole('heading', { name: 'Files' })).toBeVisible();
  await page.unroute('**/api/sessions/*');
  expect(await sessions()).toEqual(before);
  const notebooks = join(gateway.folder, 'notebooks');
  expect(await readdir(join(notebooks, 'kept'))).toEqual([]);
  const trashed = await readdir(join(notebooks, '.tpulab-trash'), { recursive: true });
  expect(trashed.filter(name => name.endsWith('.ipynb')).map(name => name.split('/').at(-1))).toEqual(
    expect.arrayContaining(['two.ipynb', 'first.ipynb'])
  );

  // A new folder, and a deleted item is restored.
  await page.goto(gateway.link());
  await page.getByRole('button', { name: 'New folder…' }).press('Enter');
  await expect(dialog).toBeVisible();
  await page.keyboard.type('fresh');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('button', { name: 'fresh', exact: true })).toBeVisible();
  await page.getByRole('button', { name: 'Trash', exact: true }).press('Enter');
  await page.getByRole('button', { name: 'Restore two.ipynb' }).press('Enter');
  await expect(page.getByText('two.ipynb was restored.')).toBeVisible();
  await expect(notebook('two.ipynb')).toBeVisible();
  expect(JSON.parse(await gateway.read('two.ipynb'))).toBeTruthy();
  await gateway.write('kept/first.ipynb', notebookText(['in its place']));
  await page.getByRole('button', { name: 'Restore kept/first.ipynb' }).press('Enter');
  await expect(page.getByText('"kept/first.ipynb" exists already')).toBeVisible();
  expect(await gateway.read('kept/first.ipynb')).toContain('in its place');
  await checkAccessibility(page, page.locator('.tpl-Home'));

  // Permanently: one, then all.
  await page.getByRole('button', { name: 'Delete kept/first.ipynb permanently' }).press('Enter');
  await expect(dialog.getByText('This cannot be undone.')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('button', { name: 'Restore kept/first.ipynb' })).toBeHidden();
  await page.getByRole('button', { name: 'More for fresh' }).press('Enter');
  await page.getByRole('menuitem', { name: 'Delete…' }).press('Enter');
  await expect(dialog).toBeVisible();
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Empty the trash…' }).press('Enter');
  await expect(dialog).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.getByText('The trash is empty.')).toBeVisible();
  expect(await readdir(join(notebooks, '.tpulab-trash'))).toEqual([]);

  // Files that are not notebooks; one of them is uploaded again.
  const named = (name: string, text: string) => ({
    name,
    mimeType: 'text/plain',
    buffer: Buffer.from(text)
  });
  const picker = page.locator('input[type=file]');
  await picker.setInputFiles([named('data.csv', 'a,b'), named('layers.py', 'COUNT = 1')]);
  await expect(page.getByText('2 files were uploaded.')).toBeVisible();
  await picker.setInputFiles([named('layers.py', 'COUNT = 2'), named('more.txt', '')]);
  await expect(dialog.getByText('Replace 1 file?')).toBeVisible();
  await checkAccessibility(page, dialog);
  await page.keyboard.press('Enter');
  await expect(page.getByText('2 files were uploaded.')).toBeVisible();
  expect(await gateway.read('layers.py')).toBe('COUNT = 2');
  await expect(page.getByRole('button', { name: 'Restore layers.py' })).toBeVisible();
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'More for data.csv' }).press('Enter');
  await page.getByRole('menuitem', { name: 'Download' }).press('Enter');
  expect(await readFile(await (await saved).path(), 'utf8')).toBe('a,b');
  // The browser reports the two refused requests.
  expect(complaints.filter(text => !text.includes('409'))).toEqual([]);
});

test('text is saved with its bytes unchanged, and changes of another program are never overwritten without consent', async ({
  page,
  gateway
}) => {
  const complaints = complaintsOf(page);
  await gateway.write('layers.py', '\ufeffCOUNT = 1\r\nSIZE = 2\r\n');
  await page.goto(gateway.link());
  await page.getByRole('link', { name: 'layers.py', exact: true }).click();
  const editor = page.getByRole('textbox', { name: 'layers.py' });
  const state = page.locator('.tpl-TopBar-saved');
  await expect(editor).toContainText('COUNT = 1');
  await checkAccessibility(page, page.locator('.tpl-Page'));
  await editor.press('Control+End');
  await page.keyboard.type('DEPTH = 3');
  await expect(state).toHaveText('Not saved yet');
  await page.keyboard.press('Control+s');
  await expect(state).toHaveText(/^Saved \d/);
  expect(await gateway.read('layers.py')).toBe('\ufeffCOUNT = 1\r\nSIZE = 2\r\nDEPTH = 3');

  // Nothing is unsaved: a change made elsewhere is shown.
  await gateway.write('layers.py', 'COUNT = 4\n');
  await expect(editor).toContainText('COUNT = 4');
  // Both have changed.
  await unwatched(page, async () => {
    await gateway.write('layers.py', 'THEIRS = 5\n');
    await editor.press('Control+End');
    await page.keyboard.type('MINE = 6');
    await page.keyboard.press('Control+s');
  });
  await expect(page.getByRole('alert')).toContainText('layers.py changed on disk while you were editing');
  await expect(page.getByRole('cell', { name: 'THEIRS = 5' })).toBeVisible();
  await expect(page.getByRole('cell', { name: 'MINE = 6' })).toBeVisible();
  expect(await gateway.read('layers.py')).toBe('THEIRS = 5\n');
  await page.getByRole('button', { name: 'Keep both' }).click();
  await expect(editor).toContainText('THEIRS = 5');
  expect(await gateway.read('layers-mine.py')).toBe('COUNT = 4\nMINE = 6');

  await rm(join(gateway.folder, 'notebooks', 'layers.py'));
  await expect(page.getByRole('alert')).toContainText('layers.py was deleted or moved');
  await page.getByRole('button', { name: 'Save again' }).click();
  await expect(state).toHaveText(/^Saved \d/);
  expect(await gateway.read('layers.py')).toBe('THEIRS = 5\n');

  // A file that is not text is not opened as text.
  await gateway.write('weights.bin', '\0\u0001');
  await page.goto(gateway.link('weights.bin'));
  await expect(page.getByRole('alert')).toContainText('weights.bin cannot be edited here. It is not text.');
  // The browser reports the refused save and the missing file.
  expect(complaints.filter(text => !/412|404/.test(text))).toEqual([]);
});
