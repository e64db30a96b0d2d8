/** The getting-started notebook from opening it to reading the panel, on a real kernel behind the real bridge. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LESSON, PROBES } from '../lab/paths.js';
import { checkAccessibility } from './accessibility.js';
import { expect, test } from './fixtures.js';
import { currentKernel, openNotebook, readCells, runInKernel, setTheme } from './lab-page.js';
import { EPOCHS, expectLesson, runLesson, STEPS_PER_EPOCH } from './lesson-outputs.js';
import { SECTIONS, TPULabPanel } from './tpulab-panel.js';

// A program already compiled by an earlier test, perhaps on a busy machine, would not be compiled again.
test.use({ labOptions: { galata: true, env: { TPULAB_COMPILATION_CACHE: 'off' } } });
// The first test runs the notebook; the others open it again and find kernel, outputs and history unchanged.
test.describe.configure({ mode: 'serial' });

test.beforeEach(async ({ page }) => {
  await openNotebook(page, LESSON);
  await expect(page.getByRole('button', { name: 'JAX (XLA) on this machine', exact: true })).toBeVisible();
});

test('opens on the kernel of the bridge and runs top to bottom with the right outputs', async ({
  lab,
  page
}) => {
  test.setTimeout(480_000);
  const gateway = await lab.gateway();
  await expect.poll(async () => (await currentKernel(page))?.name).toBe('tpulab-jax');
  const kernel = await currentKernel(page);
  expect(new URL(kernel?.baseUrl ?? '').port).toBe(new URL(gateway.url).port);
  await runInKernel(page, await readFile(join(PROBES, 'compile_log.py'), 'utf8'));

  await runLesson(page);
  expectLesson(await readCells(page));
  await page.notebook.save();
});

test('shows eight devices in the panel and in the status bar', async ({ page }) => {
  const panel = new TPULabPanel(page);
  await panel.open();
  const devices = await panel.section('Devices');
  await expect(devices).toContainText('8 XLA devices, CPU');
  await expect(devices.getByRole('list', { name: 'Devices by number' }).getByRole('listitem')).toHaveText(
    ['0', '1', '2', '3', '4', '5', '6', '7'],
    { useInnerText: true }
  );
  await expect(page.locator('#jp-main-statusbar').getByText('8 XLA devices, CPU')).toBeVisible();
});

test('shows the training loop in Steps', async ({ page }) => {
  const panel = new TPULabPanel(page);
  await panel.open();
  const steps = await panel.section('Where the time goes');
  const run = await panel.section('Run');
  await expect(run).toContainText('full batches');
  await expect(run).toContainText('finished');
  const total = EPOCHS * STEPS_PER_EPOCH;
  await expect(run).toContainText(`${total} of ${total} steps`);
  await expect(steps.getByRole('img', { name: /^Where the time went: device [1-9]\d*%/ })).toBeVisible();
  await expect(
    steps.getByRole('slider', { name: /^Times of the last \d+ steps: .* 0 of them compiled$/ })
  ).toBeVisible();
  await steps.getByRole('button', { name: 'More: table, trace, export' }).click();
  await steps.getByRole('menuitem', { name: 'Show as a table' }).click();
  await expect(steps.getByRole('rowheader').first()).toHaveText(String(total - 1));
});

test('lists exactly the compilations that JAX itself logged', async ({ page }) => {
  const logged = JSON.parse(
    await runInKernel(
      page,
      'import collections, json\nprint(json.dumps(collections.Counter(_compile_log.names)))'
    )
  ) as Record<string, number>;
  expect(logged).toMatchObject({ init_lenet: 1, lenet: 2, train_step: 2 });

  const panel = new TPULabPanel(page);
  await panel.open();
  await expect.poll(async () => Object.fromEntries(await panel.compilationCounts())).toEqual(logged);

  const section = await panel.section('Compilations');
  await section.getByRole('button', { name: /^train_step ×2 recompiled/ }).click();
  const recompiled = section
    .getByRole('list', { name: 'Compilations of train_step, newest first' })
    .getByRole('listitem')
    .filter({ hasText: 'train_step recompiled' });
  await expect(recompiled).toHaveCount(1);
  await expect(recompiled).toContainText('f32[64,1,32,32]');
  await expect(recompiled).toContainText('f32[29,1,32,32]');
  await expect(recompiled).toContainText(/cell \[\d+\] line 4/);
  // No reason is cut off by the edge of the panel.
  expect(
    await section.evaluate(box => {
      const edge = box.getBoundingClientRect().right;
      return [...box.querySelectorAll('*')].filter(part => part.getBoundingClientRect().right > edge).length;
    })
  ).toBe(0);
});

test('the slider works both ways', async ({ page }) => {
  await runInKernel(page, 'import ipywidgets as widgets');
  const cells = await readCells(page);
  const all = await page.evaluate(() => {
    const panel = window.jupyterapp.shell.currentWidget as unknown as {
      content: { widgets: { model: { id: string } }[] };
    };
    return panel.content.widgets.map(({ model }) => model.id);
  });
  expect(cells.map(({ id }) => id)).toContain('slider');

  await page.notebook.runCell(all.indexOf('slider'), true);
  // In the notebook: the charts of the side panel have their own sliders.
  const handle = page.getByRole('feed', { name: 'Cells' }).getByRole('slider');
  await expect(handle).toBeVisible();
  await expect(page.getByText('Python sees a learning rate of 0.100')).toBeVisible();

  // From the page to Python: the sentence is written in the kernel.
  await handle.press('ArrowLeft');
  await expect(page.getByText('Python sees a learning rate of 0.079')).toBeVisible();
  expect(Number(await runInKernel(page, 'print(slider.value)'))).toBeCloseTo(10 ** -1.1, 6);

  // From Python to the page: the handle moves.
  await page.notebook.runCell(all.indexOf('slider-set'), true);
  await expect(page.getByText('Python sees a learning rate of 0.050')).toBeVisible();
  await expect
    .poll(async () => Number(await handle.getAttribute('aria-valuenow')))
    .toBeCloseTo(Math.log10(0.05), 1);
});

for (const theme of ['light', 'dark'] as const) {
  test(`axe finds nothing in the panel and the status bar, ${theme}`, async ({ page }) => {
    await setTheme(page, theme);
    const panel = new TPULabPanel(page);
    await panel.open();
    for (const name of SECTIONS) await panel.section(name);
    const steps = await panel.section('Where the time goes');
    await steps.getByRole('button', { name: 'More: table, trace, export' }).click();
    await steps.getByRole('menuitem', { name: 'Show as a table' }).click();
    await panel.compilationCounts();
    const items = page.locator('#jp-main-statusbar').locator('.jp-TPULabStatus');
    await expect(items).toHaveText(['live', '8 XLA devices, CPU']);
    await checkAccessibility(page, panel.root, items.nth(0), items.nth(1));
  });
}
