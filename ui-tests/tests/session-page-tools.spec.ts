/** What a person does in the session page beside running cells, on one page; and the view that is shared with others. */
import type { Locator, Page } from '@playwright/test';
import { checkAccessibility } from './accessibility.js';
import { notebookText } from './notebook-file.js';
import { cell, expect, open, openElsewhere, test } from './session-steps.js';

const output = (page: Page, at: number): Locator => cell(page, at).locator('.jp-OutputArea-output');

/** By its name, in the palette. */
async function command(page: Page, name: string): Promise<void> {
  await page.keyboard.press('Control+k');
  await page.keyboard.type(name);
  await expect(page.getByRole('option', { name }).first()).toBeVisible();
  await page.keyboard.press('Enter');
}

async function edit(page: Page, at: number, text: string): Promise<void> {
  await cell(page, at).locator('.cm-content').click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(text);
}

const BUSY = 'import time\nwhile not stop: time.sleep(0.05)\nprint("ended")';

test('finds, completes and inspects while a cell runs, and runs what is chosen', async ({
  page,
  gateway
}) => {
  const plainText = notebookText(['needle = 1', 'needle + 1', 'needle + 2', 'stop = False', BUSY, '']);
  const notebook = JSON.parse(plainText) as { cells: object[]; metadata: object };
  const heading = { cell_type: 'markdown', id: 'title', metadata: {}, source: '# First\n\n## The needle' };
  const text = JSON.stringify({ ...notebook, metadata: {}, cells: [heading, ...notebook.cells] });
  await gateway.write('tools.ipynb', text);
  await open(page, gateway, 'tools.ipynb');

  // Opening writes nothing, though the kernel has said what it is.
  await cell(page, 1).locator('.cm-content').click();
  await page.keyboard.press('Escape');
  await command(page, 'Run all above');
  await expect(cell(page, 0).locator('.jp-InputPrompt')).toHaveText('[1]:');
  await expect(cell(page, 1).locator('.jp-InputPrompt')).toHaveText('[ ]:');

  // Two cells are chosen and run.
  await page.keyboard.press('Shift+ArrowDown');
  await page.keyboard.press('Control+Enter');
  await expect(output(page, 2)).toHaveText('3');
  await expect(output(page, 1)).toHaveText('2');

  // The rest, which then keeps the kernel busy.
  await cell(page, 3).locator('.cm-content').click();
  await page.keyboard.press('Control+F10');
  await expect(cell(page, 4).locator('.jp-InputPrompt')).toHaveText('[*]:');
  await cell(page, 5).locator('.cm-content').click();
  await page.keyboard.type('need');
  const completer = page.locator('.jp-Completer:visible');
  // Like a person: again, when nothing comes. The kernel may be slower than the completer waits.
  await expect(async () => {
    if (!(await completer.isVisible())) await page.keyboard.press('Tab');
    await expect(completer).toContainText('needle', { timeout: 5_000 });
  }).toPass();
  await page.keyboard.press('Enter');
  await expect(cell(page, 5).locator('.cm-content')).toHaveText('needle');
  await edit(page, 5, 'time.sleep');
  await page.keyboard.press('Shift+Tab');
  const documentation = page.getByRole('status', { name: 'Documentation' });
  await expect(documentation).toContainText('Delay execution');
  await page.keyboard.press('Escape');
  await expect(documentation).toBeHidden();
  await page.getByRole('button', { name: 'Interrupt the kernel' }).click();
  await expect(cell(page, 4)).toContainText('KeyboardInterrupt');

  // Find, in code and in text.
  await page.keyboard.press('Control+f');
  await expect(page.getByPlaceholder('Find', { exact: true })).toBeFocused();
  await page.keyboard.type('needle');
  await expect(page.locator('.jp-DocumentSearch-index-counter')).toContainText('/4');
  await page.keyboard.press('Escape');
  const contents = page.getByRole('navigation', { name: 'Contents' });
  await contents.getByRole('button', { name: 'The needle' }).click();
  await expect(page.locator('.jp-MarkdownCell.jp-mod-active')).toBeVisible();

  // The dialog that connects to a TPU, and a file that is dropped.
  await command(page, 'Connect to a TPU…');
  const dialog = page.getByRole('dialog', { name: /Connect to a TPU/ });
  await expect(dialog).toBeVisible();
  await checkAccessibility(page, dialog);
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();

  // Colab's keys, and the dark theme with more contrast.
  await page.emulateMedia({ contrast: 'more', colorScheme: 'dark', reducedMotion: 'reduce' });
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitemradio', { name: 'Dark theme' }).click();
  await expect(page.locator('body')).toHaveAttribute('data-jp-theme-light', 'false');
  for (const region of ['.tpl-TopBar', '.tpl-Drawer', '.tpl-StepBar'])
    await checkAccessibility(page, page.locator(region));
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitemradio', { name: "Colab's keys" }).click();
  await page.waitForLoadState('load');
  await expect(page.getByRole('button', { name: /^Runtime: .* connected, / })).toBeVisible();
  // Cells are rendered one after the other.
  await expect(page.locator('.jp-Cell')).toHaveCount(7);
  await cell(page, 0).locator('.cm-content').click();
  await page.keyboard.press('Control+m');
  await page.keyboard.press('b');
  await expect(page.locator('.jp-Cell')).toHaveCount(8);
});

test('a notebook that says nothing of its kernel is not written by opening it', async ({ page, gateway }) => {
  const { cells } = JSON.parse(notebookText(['1'])) as { cells: object[] };
  const text = JSON.stringify({ cells, metadata: {}, nbformat: 4, nbformat_minor: 5 });
  await gateway.write('untouched.ipynb', text);
  await page.goto(gateway.link('untouched.ipynb'));
  // The cell waits for the kernel to which the page still connects.
  await cell(page, 0).locator('.cm-content').click();
  await page.keyboard.press('Control+Enter');
  await expect(output(page, 0)).toHaveText('1');
  // A file that is dropped on the list of notebooks becomes one of them, and is opened.
  await page.goto(gateway.link());
  const dropped = await page.evaluateHandle(
    content => {
      const data = new DataTransfer();
      data.items.add(new File([content], 'dropped.ipynb', { type: 'application/x-ipynb+json' }));
      return data;
    },
    notebookText(['"from a file"'])
  );
  await page.locator('.tpl-Home').dispatchEvent('drop', { dataTransfer: dropped });
  await expect(page.locator('.jp-CodeCell .cm-content').first()).toContainText('from a file');
  expect(await gateway.read('dropped.ipynb')).toContain('from a file');
});

test('shares a view that shows everything live, can change nothing, and ends when it is revoked', async ({
  page,
  browser,
  gateway
}) => {
  const loop =
    'import time\nfor i in range(600):\n    print(f"\\rline {i}", end="", flush=True); time.sleep(0.1)';
  await gateway.write('shared.ipynb', notebookText([loop, '']));
  await open(page, gateway, 'shared.ipynb');
  await cell(page, 0).locator('.cm-content').click();
  await page.keyboard.press('Control+Enter');
  await expect(output(page, 0)).toContainText('line');
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Share a view…' }).click();
  const dialog = page.getByRole('dialog', { name: /^Share a view of/ });
  await dialog.getByRole('button', { name: 'Create link' }).click();
  const link = await dialog.getByLabel('Link', { exact: true }).inputValue();
  await checkAccessibility(page, dialog);
  const reader = await openElsewhere(browser, link);
  await expect(output(reader, 0)).toContainText('line');
  const seen = await output(reader, 0).innerText();
  await expect.poll(() => output(reader, 0).innerText()).not.toBe(seen);
  await expect(reader.getByRole('button', { name: 'Run all' })).toHaveCount(0);
  await cell(reader, 1).locator('.cm-content').click();
  await reader.keyboard.type('mine');
  await reader.keyboard.press('Control+Enter');
  await expect(cell(reader, 1).locator('.cm-content')).not.toContainText('mine');

  // What the owner writes and runs afterwards comes too.
  await dialog.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('button', { name: 'Interrupt the kernel' }).click();
  await expect(output(page, 0).last()).toContainText('KeyboardInterrupt');
  await edit(page, 1, 'print("for the " + "reader"); time.sleep(5)');
  await page.keyboard.press('Control+Enter');
  await expect(output(reader, 1)).toContainText('for the reader');

  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Share a view…' }).click();
  await dialog.getByRole('button', { name: /^Revoke/ }).click();
  await expect(dialog.getByRole('button', { name: /^Revoke/ })).toHaveCount(0);
  await reader.reload();
  await expect(reader.getByText('The gateway refused this token')).toBeVisible();
  await reader.context().close();
});
