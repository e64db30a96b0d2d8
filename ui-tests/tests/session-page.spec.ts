/** The session page in Chromium, with the real gateway and real kernels. */
import type { Locator, Page } from '@playwright/test';
import { OTHER_PACKAGES } from '../lab/paths.js';
import type { SessionGateway } from '../lab/session-gateway.js';
import { checkAccessibility } from './accessibility.js';
import { notebookText } from './notebook-file.js';
import { cell, complaintsOf, expect, open, openElsewhere, run, test, unwatched } from './session-steps.js';

const saved = (page: Page): Locator => page.locator('.tpl-TopBar-saved.jp-mod-saved');

interface Saved {
  readonly cells: readonly { readonly source: string | string[]; readonly outputs?: readonly object[] }[];
}
const fileOf = async (gateway: SessionGateway, name: string): Promise<Saved> =>
  JSON.parse(await gateway.read(name)) as Saved;

const LINES = 60;
const HALF = LINES / 2;
/** Waits in the middle for a file of this name, so that the test controls the events in between, however fast the machine is. */
const loop = (gate: string): string =>
  [
    'import pathlib, sys, time',
    `for i in range(${LINES}):`,
    "    print(f'line {i}', flush=True)",
    "    sys.stdout.write(f'\\r{i + 1} done'.ljust(12) + '\\r'); sys.stdout.flush()",
    `    while i == ${HALF} and not pathlib.Path('${gate}').exists(): time.sleep(0.02)`,
    '    time.sleep(0.05)'
  ].join('\n');
const ALL_LINES = Array.from({ length: LINES }, (_, at) => `line ${at}`);

/** The output of the cell. */
async function linesOf(page: Page, index: number): Promise<string[]> {
  const printed = await cell(page, index).locator('.jp-OutputArea-output').allInnerTexts();
  return printed.join('\n').match(/line \d+/g) ?? [];
}

/** Scripts and styles, compressed, until a notebook has its kernel: docs/benchmarks.md lists them. */
const MAX_FIRST_LOAD = 560_000;

function bytesOfPage(): number {
  return (performance.getEntriesByType('resource') as PerformanceResourceTiming[])
    .filter(({ name }) => /\/_page\/.*\.(js|css)$/.test(name))
    .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0);
}

test('runs cells, saves them, and a reload in mid-cell loses nothing', async ({ page, gateway }) => {
  const errors = complaintsOf(page);
  await gateway.write(
    'a.ipynb',
    notebookText(['1 + 1', loop('a-gate'), `print('\\x1b[32mgreen\\x1b[0m <b>')`])
  );
  await open(page, gateway, 'a.ipynb');
  const first = await page.evaluate(bytesOfPage);
  expect(first).toBeGreaterThan(MAX_FIRST_LOAD / 2);
  expect(first).toBeLessThanOrEqual(MAX_FIRST_LOAD);
  expect(page.url()).not.toContain(gateway.token);
  await run(page, 0);
  await expect(cell(page, 0).locator('.jp-OutputArea-output')).toHaveText('2');
  await expect(saved(page)).toBeVisible();
  await expect.poll(async () => (await fileOf(gateway, 'a.ipynb')).cells[0]?.outputs).toHaveLength(1);
  for (const region of ['.tpl-TopBar', '.tpl-Drawer', '.tpl-StepBar'])
    await checkAccessibility(page, page.locator(region));

  await run(page, 1);
  await expect(cell(page, 1)).toContainText(`line ${HALF}\n`);
  await page.reload();
  await gateway.write('a-gate', '');
  await expect(cell(page, 1)).toContainText(`line ${LINES - 1}`);
  await expect.poll(() => linesOf(page, 1)).toEqual(ALL_LINES);
  await expect(cell(page, 1).locator('.jp-InputPrompt')).toHaveText('[2]:');
  await run(page, 2);
  await expect(cell(page, 2).locator('.jp-OutputArea-output')).toHaveText('green <b>');
  await expect(cell(page, 2).locator('.ansi-green-fg')).toHaveText('green');
  expect(errors).toEqual([]);
});

// The part of such a link in a browser's history is worthless.
test('a link with a code admits one page, and its reload', async ({ page, browser, gateway }) => {
  await gateway.write('linked.ipynb', notebookText(['print("in")']));
  const answer = await gateway.request('bridge/v1/page-code', { method: 'POST' });
  const { code } = (await answer.json()) as { code: string };
  const link = `${gateway.url}session/linked.ipynb#code=${code}`;
  await page.goto(link);
  await expect(page.locator('.jp-CodeCell')).toHaveCount(1);
  expect(page.url()).not.toContain('code-');
  await page.reload();
  await expect(page.locator('.jp-CodeCell')).toHaveCount(1);
  const stranger = await openElsewhere(browser, link);
  await expect(stranger.getByRole('alert')).toContainText('This link was opened before');
  await expect(stranger.getByLabel('Token')).toBeVisible();
  await stranger.context().close();
});

const FRAMED = `from IPython.display import HTML
HTML("<p id=late></p><script>document.getElementById('late').textContent = 'by a script'</script>")`;
const WITH_MATH = 'HTML("<p>set $x^2$</p>")';
const SLIDER = 'import ipywidgets\nipywidgets.IntSlider()';

test('loads each part again that the network has lost', async ({ page, gateway }) => {
  // Simulates a network change: each first request for a script, a style sheet, a frame or a notebook fails.
  const lost = new Set<string>();
  await page.route(/\/(_page|_frame|bridge\/v1\/(health|page-key|files))/, route => {
    const address = new URL(route.request().url()).pathname;
    const isFirst = route.request().method() === 'GET' && !lost.has(address);
    lost.add(address);
    return isFirst ? route.abort('failed') : route.continue();
  });
  await gateway.write('plain.ipynb', notebookText(['1', FRAMED, WITH_MATH, SLIDER]));
  await open(page, gateway, 'plain.ipynb');
  await expect(page.locator('.tpl-TopBar')).toHaveCSS('display', 'flex');
  await page.getByRole('button', { name: 'Run all' }).click();
  await expect(cell(page, 1).frameLocator('iframe').getByText('by a script')).toBeVisible();
  await expect(cell(page, 2).locator('mjx-container')).toHaveCSS('line-height', '0px');
  await expect(cell(page, 3).getByRole('slider')).toBeVisible();
  expect([...lost].filter(address => /_frame|math|index-.*css/.test(address)).length).toBeGreaterThan(3);
});

test('two pages that change one notebook lose nothing', async ({ page, browser, gateway }) => {
  await gateway.write('b.ipynb', notebookText(['first = 1']));
  await open(page, gateway, 'b.ipynb');
  await unwatched(page, async () => {
    const other = await openElsewhere(browser, gateway.link('b.ipynb'));
    await other.locator('.cm-content').click();
    await other.keyboard.press('Control+End');
    await other.keyboard.type('\ntheirs = 2');
    await expect.poll(() => gateway.read('b.ipynb')).toContain('theirs');
    await other.context().close();
    await page.locator('.cm-content').click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type('\nmine = 3');
  });
  await expect(
    page.getByRole('alert').getByText('b.ipynb changed on disk while you were editing')
  ).toBeVisible();
  expect(await gateway.read('b.ipynb')).not.toContain('mine');
  await page.getByRole('button', { name: 'Keep both' }).click();
  await expect(page.locator('.cm-content')).toContainText('theirs');
  expect(await gateway.read('b-mine.ipynb')).toContain('mine');
});

test('two pages that show one running cell save its outputs without a conflict', async ({
  page,
  browser,
  gateway
}) => {
  const count = 'import time\nfor i in range(300):\n    print(i, flush=True)\n    time.sleep(0.1)';
  await gateway.write('live.ipynb', notebookText([count]));
  await open(page, gateway, 'live.ipynb');
  await run(page, 0);
  const other = await openElsewhere(browser, gateway.link('live.ipynb'));
  for (const each of [page, other]) {
    await expect(cell(each, 0).locator('.jp-OutputArea-output')).toContainText('299', { timeout: 120_000 });
    await expect(each.locator('.tpl-TopBar-saved.jp-mod-saved')).toBeVisible({ timeout: 60_000 });
    await expect(each.getByRole('region', { name: 'Two versions of live.ipynb' })).toBeHidden();
  }
  expect(await gateway.read('live.ipynb')).toContain('299');
  await other.context().close();
});

test('steers a training from step bar and panel, in either theme', async ({ page, gateway }) => {
  const training = [
    'import jax, jax.numpy as jnp, time, tpulab',
    '@jax.jit',
    'def step(x):',
    '    return x @ x * 0.01',
    "run = tpulab.run('drawn', hyperparameters={'rate': tpulab.hyper(0.1, min=0.0, max=1.0)})",
    'x = jnp.ones((64, 64))',
    'for i in run.steps(range(100_000), total=100_000):',
    '    x = step(x)',
    '    run.log(loss=1.0 / (i + 1))',
    '    time.sleep(0.01)',
    "print('stopped')"
  ].join('\n');
  await gateway.write('c.ipynb', notebookText([training]));
  await open(page, gateway, 'c.ipynb');
  await run(page, 0);
  const bar = page.getByRole('contentinfo', { name: 'Run' });
  await expect(bar.getByText('Running')).toBeVisible();
  await expect(bar.getByRole('img', { name: /^Where the time went: / })).toBeVisible();
  await bar.getByRole('button', { name: 'Pause' }).click();
  await expect(bar.getByText('Paused')).toBeVisible();
  await page.getByRole('button', { name: 'Open panel' }).click();
  const panel = page.getByRole('complementary', { name: 'Run and devices' });
  await panel.getByRole('button', { name: 'Resume' }).click();
  await expect(panel.locator('.jp-TPULabRun-state')).toHaveText('running');
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitemradio', { name: 'Dark theme' }).click();
  await expect(page.locator('body')).toHaveAttribute('data-jp-theme-light', 'false');
  await panel.getByRole('button', { name: 'Stop after this step' }).click();
  await expect(cell(page, 0)).toContainText('stopped');
});

test('continues automatically after the gateway was killed', async ({ page, gateway }) => {
  await gateway.write('d.ipynb', notebookText([loop('d-gate')]));
  await open(page, gateway, 'd.ipynb');
  await run(page, 0);
  await expect(cell(page, 0)).toContainText(`line ${HALF}\n`);
  await gateway.kill();
  await gateway.write('d-gate', '');
  await expect(page.getByText('The kernel keeps running')).toBeVisible();
  await gateway.restart();
  await expect(cell(page, 0)).toContainText(`line ${LINES - 1}`);
  await expect(page.getByText('The kernel keeps running')).toBeHidden();
  await expect.poll(() => linesOf(page, 0)).toEqual(ALL_LINES);
});

/** Python of the environment with anywidget, which is not part of TPULab's own environments. */
const ANYWIDGET = [
  'import glob, sys',
  `sys.path += glob.glob(${JSON.stringify(OTHER_PACKAGES)})`,
  'import anywidget, traitlets',
  'class Counter(anywidget.AnyWidget):',
  '    _esm = """',
  '    function render({ model, el }) {',
  "      const button = document.createElement('button');",
  "      const show = () => { button.textContent = 'count ' + model.get('count'); };",
  "      button.onclick = () => { model.set('count', model.get('count') + 1); model.save_changes(); };",
  "      model.on('change:count', show);",
  '      show();',
  '      el.append(button);',
  '    }',
  '    export default { render };',
  '    """',
  '    count = traitlets.Int(3).tag(sync=True)',
  'counter = Counter()',
  'counter'
].join('\n');

test('shows widgets, even after a reload while the kernel is busy, and asks for input', async ({
  page,
  gateway
}) => {
  const widgets = [
    'import ipywidgets as widgets',
    "slider = widgets.IntSlider(value=3, max=9, description='n')",
    "slider.observe(lambda change: print('now', change['new']), 'value')",
    'slider'
  ].join('\n');
  const inputs = "name = input('who? ')\nprint('hello', name)";
  await gateway.write(
    'e.ipynb',
    notebookText([widgets, inputs, ANYWIDGET, 'print(counter.count)\ncounter.count = 40'])
  );
  await open(page, gateway, 'e.ipynb');
  await run(page, 0);
  const handle = cell(page, 0).getByRole('slider');
  await handle.focus();
  await page.keyboard.press('ArrowRight');
  await run(page, 2);
  const counter = cell(page, 2).frameLocator('.tpl-OutputFrame').getByRole('button');
  await expect(counter).toHaveText('count 3');
  await counter.click();
  await expect(counter).toHaveText('count 4');
  await run(page, 3);
  await expect(cell(page, 3).locator('.jp-OutputArea-output')).toHaveText('4');
  await expect(counter).toHaveText('count 40');
  await run(page, 1);
  await expect(cell(page, 1).locator('.jp-Stdin-input')).toBeVisible();
  await page.reload();
  await expect(handle).toHaveAttribute('aria-valuetext', '4');
  await expect(counter).toHaveText('count 40');
  await cell(page, 1).locator('.jp-Stdin-input').fill('TPU');
  await page.keyboard.press('Enter');
  await expect(cell(page, 1)).toContainText('hello TPU');
});
