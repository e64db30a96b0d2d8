/** User actions in the session page besides running cells, on one page; and the view shared with others. */
import type { Locator, Page } from '@playwright/test';
import { checkAccessibility } from './accessibility.js';
import { notebookText } from './notebook-file.js';
import {
  command,
  cell,
  complaintsOf,
  expect,
  open,
  openElsewhere,
  run,
  test,
  unwatched
} from './session-steps.js';

const output = (page: Page, at: number): Locator => cell(page, at).locator('.jp-OutputArea-output');

async function edit(page: Page, at: number, text: string): Promise<void> {
  await cell(page, at).locator('.cm-content').click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(text);
}

/** The kernel aborts a cell that arrives before an interrupted one has ended. */
const idle = (page: Page): Promise<void> =>
  expect(page.getByRole('button', { name: 'Interrupt the kernel' })).toBeDisabled();

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

  await command(page, 'Rename…');
  await page.getByRole('dialog').getByRole('textbox').fill('renamed');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: 'renamed.ipynb' })).toBeVisible();
  await expect.poll(() => new URL(page.url()).pathname).toMatch(/\/session\/renamed\.ipynb$/);

  await cell(page, 1).locator('.cm-content').click();
  await page.keyboard.press('Escape');
  await command(page, 'Run all above');
  await expect(cell(page, 0).locator('.jp-InputPrompt')).toHaveText('[1]:');
  await expect(cell(page, 1).locator('.jp-InputPrompt')).toHaveText('[ ]:');

  // Two cells are selected and run.
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
  // Like a user, repeats the key if nothing appears. The kernel may be slower than the completer waits.
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
  await expect(cell(page, 4).locator('summary')).toContainText('KeyboardInterrupt');
  await idle(page);
  // A longer traceback is folded.
  await edit(page, 4, `def down(n):\n    return 1 / n if n == 0 else down(n - 1)\ndown(3)`);
  await page.keyboard.press('Control+Enter');
  const failed = cell(page, 4).locator('.tpl-Error');
  await expect(failed.getByText('ZeroDivisionError: division by zero').first()).toBeVisible();
  await expect(failed.getByText('return 1 / n').first()).toBeHidden();
  await failed.locator('summary').click();
  await expect(failed.getByText('return 1 / n').first()).toBeVisible();

  // Find, in code and in text.
  await page.keyboard.press('Control+f');
  await expect(page.getByPlaceholder('Find', { exact: true })).toBeFocused();
  await page.keyboard.type('needle');
  await expect(page.locator('.jp-DocumentSearch-index-counter')).toContainText('/4');
  await page.keyboard.press('Escape');
  const contents = page.getByRole('navigation', { name: 'Contents' });
  await contents.getByRole('button', { name: 'The needle' }).click();
  await expect(page.locator('.jp-MarkdownCell.jp-mod-active')).toBeVisible();

  // The dialog that connects to a TPU, and a dropped file.
  await command(page, 'Connect to a TPU…');
  const dialog = page.getByRole('dialog', { name: /Connect to a TPU/ });
  await expect(dialog).toBeVisible();
  await checkAccessibility(page, dialog);
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();

  // The opened runtime chip lies below it; on a phone the top bar has room for all its buttons.
  const size = page.viewportSize() ?? { width: 1280, height: 720 };
  const more = page.getByRole('button', { name: 'More', exact: true });
  for (const width of [size.width, 360]) {
    await page.setViewportSize({ width, height: size.height });
    await expect(more).toBeInViewport({ ratio: 1 });
    await page.getByRole('button', { name: /^Runtime: / }).click();
    await expect(page.getByRole('dialog', { name: 'Runtime' })).toBeInViewport({ ratio: 1 });
    await page.keyboard.press('Escape');
  }
  await page.setViewportSize(size);

  // The documentation, in a separate tab without a token.
  const tab = page.context().waitForEvent('page');
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Documentation' }).click();
  const site = await tab;
  await expect(site).toHaveTitle(/^TPULab/);
  expect(new URL(site.url()).pathname).toBe('/docs/');
  await site.close();

  // Colab's keys, and the dark theme with more contrast.
  await page.emulateMedia({ contrast: 'more', colorScheme: 'dark', reducedMotion: 'reduce' });
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitemradio', { name: 'Dark theme' }).click();
  await expect(page.locator('body')).toHaveAttribute('data-jp-theme-light', 'false');
  for (const region of ['.tpl-TopBar', '.tpl-Drawer', '.tpl-StepBar'])
    await checkAccessibility(page, page.locator(region));
  await page.getByRole('button', { name: 'More', exact: true }).click();
  // The page saves the notebook first; until the reload, the old page answers all the following requests.
  const loaded = page.waitForEvent('load');
  await page.getByRole('menuitemradio', { name: "Colab's keys" }).click();
  await loaded;
  await expect(page.getByRole('button', { name: /^Runtime: .* connected, / })).toBeVisible();
  // Cells are rendered one after the other.
  await expect(page.locator('.jp-Cell')).toHaveCount(7);
  await cell(page, 0).locator('.cm-content').click();
  await page.keyboard.press('Control+m');
  await page.keyboard.press('b');
  await expect(page.locator('.jp-Cell')).toHaveCount(8);
});

test('a long notebook draws the cells near the visible ones, and stays at the chosen position', async ({
  page,
  gateway
}) => {
  const complaints = complaintsOf(page);
  const code = (at: number): object => ({
    cell_type: 'code',
    id: `code-${at}`,
    metadata: {},
    source: `x = ${at}${'\n'.repeat((159 - at) % 7)}`,
    // Higher than the expected height of a cell that was not drawn yet.
    outputs: at % 5 === 0 ? [{ output_type: 'stream', name: 'stdout', text: `said ${at}\n\n\n` }] : [],
    execution_count: null
  });
  const text = (at: number): object => ({
    cell_type: 'markdown',
    id: `text-${at}`,
    metadata: {},
    source: `# Part ${at}\n\n${'Some words that wrap. '.repeat(40)}\n\n[Back to 20](#Part-20)`
  });
  const cells = Array.from({ length: 160 }, (_, at) => [
    ...(at % 20 === 0 ? [text(at)] : []),
    code(at)
  ]).flat();
  const { metadata } = JSON.parse(notebookText()) as { metadata: object };
  await gateway.write('long.ipynb', JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }));
  await page.goto(gateway.link('long.ipynb'));
  const source = (at: number): Locator =>
    page.locator('.jp-CodeCell .cm-content').getByText(`x = ${at}`, { exact: true });
  const heading = (at: number): Locator => page.getByRole('heading', { name: `Part ${at}`, exact: true });
  const scroller = page.locator('.jp-Notebook .jp-WindowedPanel-outer');
  await expect(source(0)).toBeVisible();

  // The view scrolls to the end while cells are still being created, and stays there when all of them are.
  await scroller.evaluate(node => {
    node.scrollTop = node.scrollHeight;
  });
  await expect(page.locator('.jp-CodeCell .cm-content')).toHaveCount(160);
  await scroller.evaluate(node => {
    node.scrollTop = node.scrollHeight;
  });
  // The view has scrolled past the last cell: only the cell's end is visible.
  await expect(page.locator('.jp-CodeCell').last()).toBeInViewport();
  await source(159).click();
  await expect(source(0)).toBeHidden();
  await page.keyboard.press('Alt+Enter');
  await page.keyboard.type('print("at the end")');
  await page.keyboard.press('Control+Enter');
  const printed = page.locator('.jp-OutputArea-output').getByText('at the end');
  await expect(printed).toBeInViewport();

  // The key jumps to the beginning; typed text still goes to the focused cell, however far it is scrolled away.
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+Home');
  // Immediately: Chromium's own animation continues after a later jump, and ends at the beginning.
  expect(await scroller.evaluate(node => node.scrollTop)).toBe(0);
  await expect(source(0)).toBeInViewport();
  await source(0).click();
  await page.keyboard.press('End');
  // The editor scrolls to its cursor in a frame after the key, as a person would see before scrolling away.
  await scroller.evaluate(
    node =>
      new Promise<void>(resolve => {
        requestAnimationFrame(() =>
          requestAnimationFrame(() => {
            node.scrollTop = node.scrollHeight / 2;
            resolve();
          })
        );
      })
  );
  await expect(source(0)).not.toBeInViewport();
  await page.keyboard.type('00');
  await expect(source(0)).toHaveCount(0);
  await expect.poll(() => gateway.read('long.ipynb')).toContain('x = 000');

  // The table of contents jumps to the middle, and cells are run there one after another.
  const contents = page.getByRole('navigation', { name: 'Contents' });
  await contents.getByRole('button', { name: 'Part 80' }).click();
  await expect(heading(80)).toBeInViewport();
  await expect(source(80)).toBeInViewport();
  await source(80).click();
  for (let at = 80; at < 90; at += 1) await page.keyboard.press('Shift+Enter');
  await expect(page.locator('.jp-InputPrompt', { hasText: /^\[11\]:$/ })).toBeInViewport();
  await expect(source(90)).toBeInViewport();

  // A search result, and the target of a link.
  await page.keyboard.press('Control+f');
  await page.getByPlaceholder('Find', { exact: true }).fill('x = 133');
  await expect(page.locator('.jp-DocumentSearch-index-counter')).toContainText('1/1');
  await page.keyboard.press('Enter');
  await expect(source(133)).toBeInViewport();
  await page.keyboard.press('Escape');
  await contents.getByRole('button', { name: 'Part 140' }).click();
  await expect(heading(140)).toBeInViewport();
  await page.getByRole('link', { name: 'Back to 20' }).and(page.locator(':visible')).last().click();
  await expect(heading(20)).toBeInViewport();

  // Nothing of it is lost, and the reloaded page has it all.
  await page.reload();
  await expect(page.locator('.jp-CodeCell .cm-content')).toHaveCount(161);
  await scroller.evaluate(node => {
    node.scrollTop = node.scrollHeight;
  });
  await expect(page.locator('.jp-CodeCell').last()).toBeInViewport();
  await expect(printed).toBeVisible();
  expect(complaints).toEqual([]);
});

test('with the mouse alone, cells are added, run and stopped', async ({ page, gateway }) => {
  await gateway.write('mouse.ipynb', notebookText(['1 + 1', 'import time\nwhile True: time.sleep(0.05)']));
  await open(page, gateway, 'mouse.ipynb');
  const button = (at: number): Locator => cell(page, at).getByRole('button', { name: 'Run this cell' });
  await cell(page, 0).hover();
  await button(0).click();
  await expect(output(page, 0)).toHaveText('2');
  await cell(page, 1).hover();
  await button(1).click();
  await expect(cell(page, 1)).toHaveAttribute('data-tpl-state', 'running');
  await button(1).click();
  await expect(cell(page, 1).locator('summary')).toContainText('KeyboardInterrupt');
  await idle(page);

  const add = (at: number, type: string): Locator =>
    page
      .locator('.jp-Cell')
      .nth(at)
      .getByRole('button', { name: `Add a cell after this one: ${type}` });
  await add(0, 'Code').hover();
  await add(0, 'Code').click();
  await expect(cell(page, 1).locator('.cm-content')).toBeFocused();
  await page.keyboard.type('between = 5');
  await add(1, 'Text').hover();
  await add(1, 'Text').click();
  await expect(page.locator('.jp-MarkdownCell .cm-content')).toBeFocused();
  await page.keyboard.type('## New heading');
  await cell(page, 1).hover();
  await button(1).click();
  await expect(cell(page, 1).locator('.jp-InputPrompt')).toHaveText('[3]:');
  await expect
    .poll(async () => {
      const { cells } = JSON.parse(await gateway.read('mouse.ipynb')) as { cells: { source: unknown }[] };
      return cells.map(({ source }) => [source].flat().join(''));
    })
    .toEqual(['1 + 1', 'between = 5', '## New heading', expect.stringContaining('while True')]);
  await checkAccessibility(page, cell(page, 1));
});

test('a notebook that names no kernel is not written by opening it', async ({ page, gateway }) => {
  const { cells } = JSON.parse(notebookText(['1'])) as { cells: object[] };
  const text = JSON.stringify({ cells, metadata: {}, nbformat: 4, nbformat_minor: 5 });
  await gateway.write('untouched.ipynb', text);
  const writtenAt = await gateway.writtenAt('untouched.ipynb');
  await page.goto(gateway.link('untouched.ipynb'));
  // The cell waits for the kernel to which the page still connects.
  await run(page, 0);
  await expect(output(page, 0)).toHaveText('1');
  // The kernel's reply comes after the result, and is saved too.
  await expect(cell(page, 0).locator('.jp-InputPrompt')).toHaveText('[1]:');
  await expect.poll(() => gateway.writtenAt('untouched.ipynb')).toBeGreaterThan(writtenAt);
  await expect(page.locator('.tpl-TopBar-saved.jp-mod-saved')).toBeVisible();
  await page.goto('about:blank');
  const [saved, savedAt] = [
    await gateway.read('untouched.ipynb'),
    await gateway.writtenAt('untouched.ipynb')
  ];

  // Now it names its kernel. Opened again, and saved with the key, it is the same file: nothing was written.
  await open(page, gateway, 'untouched.ipynb');
  await page.keyboard.press('Control+s');
  await expect(page.locator('.tpl-TopBar-saved.jp-mod-saved')).toBeVisible();
  expect(await gateway.read('untouched.ipynb')).toBe(saved);
  expect(await gateway.writtenAt('untouched.ipynb')).toBe(savedAt);
});

test('offers to set up JAX where no kernel is installed, and uses the kernel once there is one', async ({
  page,
  gateway
}) => {
  await gateway.write('first.ipynb', notebookText(['6 * 7']));
  // As on a computer without an environment.
  await page.route('**/api/kernelspecs*', route => route.fulfill({ json: { default: '', kernelspecs: {} } }));
  await page.route('**/bridge/v1/environments', async route => {
    const environments = (await (await route.fetch()).json()) as { name: string }[];
    return route.fulfill({ json: environments.map(each => ({ ...each, state: 'available' })) });
  });
  await page.goto(gateway.link('first.ipynb'));
  await page.getByRole('button', { name: 'Set up JAX' }).click();
  const dialog = page.getByRole('dialog', { name: 'Set up JAX on this machine' });
  await expect(dialog.getByRole('button', { name: 'Set up JAX' })).toBeVisible();
  await checkAccessibility(page, dialog);
  await page.unrouteAll();
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await expect(page.getByRole('button', { name: /^Runtime: .* connected, / })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Set up JAX' })).toBeHidden();
});

test('opens notebooks from outside: a dropped one, and a file of the browser, which is saved in place', async ({
  page,
  gateway
}) => {
  // Without its dialog, which no test can answer. The handle is a real one, of the browser's own file system.
  await page.addInitScript(() => {
    Object.assign(window, {
      showOpenFilePicker: async () => [
        await (await navigator.storage.getDirectory()).getFileHandle('mine.ipynb', { create: true })
      ]
    });
  });
  const put = (text: string): Promise<void> =>
    page.evaluate(async content => {
      const root = await navigator.storage.getDirectory();
      const writable = await (await root.getFileHandle('mine.ipynb', { create: true })).createWritable();
      await writable.write(content);
      await writable.close();
    }, text);
  const mine = (): Promise<string> =>
    page.evaluate(async () => {
      const root = await navigator.storage.getDirectory();
      return (await (await root.getFileHandle('mine.ipynb')).getFile()).text();
    });
  await page.goto(gateway.link());
  await expect(page.locator('.tpl-Home').getByRole('heading', { name: 'Files' })).toBeVisible();
  await put(notebookText(['6 * 7']));
  await checkAccessibility(page, page.locator('.tpl-Home'));
  await page.getByRole('button', { name: /^Open from this computer/ }).click();
  await expect(page.getByRole('button', { name: /^Runtime: .* connected, / })).toBeVisible();
  await run(page, 0);
  await expect(output(page, 0)).toHaveText('42');
  await expect.poll(mine).toContain('"42"');

  // After a reload it is open with its kernel, and another program's changes are not overwritten.
  await page.reload();
  await expect(output(page, 0)).toHaveText('42');
  await unwatched(page, async () => {
    await put(notebookText(['"theirs"']));
    await edit(page, 0, '"mine"');
  });
  await expect(page.getByText('mine.ipynb changed on disk while you were editing')).toBeVisible();
  // Files of this computer have no trash.
  await expect(page.getByText('goes to the trash')).toBeHidden();
  expect(await mine()).toContain('theirs');
  await page.getByRole('button', { name: 'Keep both' }).click();
  await expect(cell(page, 0).locator('.cm-content')).toHaveText('"theirs"');
  expect(await gateway.read('mine-mine.ipynb')).toContain('\\"mine\\"');

  await page.goto(gateway.link());
  await expect(page.getByRole('link', { name: 'mine.ipynb', exact: true })).toBeVisible();
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
  const loop = [
    'import time, tpulab, ipywidgets',
    'display(ipywidgets.IntSlider(value=3))',
    "run = tpulab.run('shared', hyperparameters={'rate': tpulab.hyper(0.1, min=0.0, max=1.0)})",
    'for i in run.steps(range(100_000), total=100_000):',
    '    print(f"\\rline {i}", end="", flush=True); time.sleep(0.1)'
  ].join('\n');
  await gateway.write('shared.ipynb', notebookText([loop, '']));
  await open(page, gateway, 'shared.ipynb');
  await run(page, 0);
  await expect(output(page, 0).last()).toContainText('line');
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Share a read-only link…' }).click();
  const dialog = page.getByRole('dialog', { name: /^Share a read-only link to/ });
  await dialog.getByRole('button', { name: 'Create link' }).click();
  const link = await dialog.getByLabel('Link', { exact: true }).inputValue();
  await checkAccessibility(page, dialog);
  const reader = await openElsewhere(browser, 'about:blank');
  const complaints = complaintsOf(reader);
  await reader.goto(link);
  await expect(output(reader, 0).last()).toContainText('line');
  const seen = await output(reader, 0).last().innerText();
  await expect.poll(() => output(reader, 0).last().innerText()).not.toBe(seen);
  // Controls that would change something are disabled, with the reason.
  await expect(output(reader, 0).first()).toContainText(
    'Widget (not interactive in a read-only view): IntSlider(value=3'
  );
  await reader.getByRole('button', { name: 'Open panel' }).click();
  const panel = reader.getByRole('complementary', { name: 'Run and devices' });
  await expect(panel.getByText('View only')).toBeVisible();
  await expect(panel.getByRole('slider', { name: 'rate' })).toBeDisabled();
  await expect(panel.getByRole('button', { name: 'Pause' })).toHaveCount(0);
  await checkAccessibility(reader, panel);
  await panel.getByRole('button', { name: 'Close the panel' }).click();
  await expect(reader.getByRole('button', { name: /^(Run (all|this)|Add a cell)/ })).toHaveCount(0);
  await cell(reader, 1).locator('.cm-content').click();
  await reader.keyboard.type('mine');
  await reader.keyboard.press('Control+Enter');
  await expect(cell(reader, 1).locator('.cm-content')).not.toContainText('mine');

  // The owner's later changes and outputs arrive too.
  await dialog.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('button', { name: 'Interrupt the kernel' }).click();
  await expect(output(page, 0).last()).toContainText('KeyboardInterrupt');
  await idle(page);
  await edit(page, 1, 'print("for the " + "reader"); time.sleep(5)');
  await page.keyboard.press('Control+Enter');
  await expect(output(reader, 1)).toContainText('for the reader');

  // Nothing was refused: a reader's page sends no request beyond its permissions.
  expect(complaints).toEqual([]);
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Share a read-only link…' }).click();
  await dialog.getByRole('button', { name: /^Revoke/ }).click();
  await expect(dialog.getByRole('button', { name: /^Revoke/ })).toHaveCount(0);
  await reader.reload();
  await expect(reader.getByText('The server refused this token')).toBeVisible();
  await reader.context().close();
});

test('where the system sets the colours, bars and dots keep theirs, and a long setting stays in the page', async ({
  page,
  gateway
}) => {
  const train = `import tpulab
run = tpulab.run('long', {'path': 'x' * 3000})
for step in run.steps(range(30)): pass
run.finish()`;
  await gateway.write('colours.ipynb', notebookText([train]));
  await open(page, gateway, 'colours.ipynb');
  await run(page, 0);
  await expect(page.locator('.tpl-StepBar')).toContainText('Finished');
  await expect(page.locator('.tpl-Chip')).toHaveClass(/jp-mod-live/);
  const check = async (part: string): Promise<void> => {
    const element = page.locator(part).first();
    const colour = (): Promise<string> => element.evaluate(found => getComputedStyle(found).backgroundColor);
    const own = await colour();
    await page.emulateMedia({ forcedColors: 'active' });
    expect(await colour(), part).toBe(own);
    await page.emulateMedia({ forcedColors: 'none' });
  };
  for (const part of ['.tpl-Chip-dot', '.tpl-Gauge-bar', '.tpl-StepBar-split > span']) await check(part);
  await page.getByRole('button', { name: 'Open panel' }).click();
  await check('.jp-TPULabProgress-bar');

  await page.goto(gateway.link());
  await page.getByRole('link', { name: 'Runs', exact: true }).click();
  await page.getByRole('button', { name: 'long', exact: true }).click();
  const setting = page.getByRole('article', { name: 'Run long' }).locator('dd', { hasText: 'xxx' });
  const right = await setting.evaluate(element => element.getBoundingClientRect().right);
  expect(right).toBeLessThanOrEqual(1440);
});
