/** A training is monitored and steered from the page while its cell is busy, and continues in the page after a reload. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checkAccessibility } from './accessibility.js';
import { expect, test } from './fixtures.js';
import { openNotebook, readCells, setTheme } from './lab-page.js';
import { notebookText } from './notebook-file.js';
import { pausedStep, stepOf } from './notebook-training.js';
import { TPULabPanel } from './tpulab-panel.js';

const SET_UP = `import time
import ipywidgets, jax, jax.numpy as jnp, tpulab

@jax.jit
def train_step(w, learning_rate):
    loss = jnp.mean(w ** 2)
    return w - learning_rate * w, loss`;

const TRAIN = `level = tpulab.live(ipywidgets.IntSlider(description="level", value=1, min=0, max=10))
display(level.widget)
run = tpulab.run("steered", hyperparameters={
    "learning_rate": tpulab.hyper(1e-3, min=1e-6, max=1e-1, scale="log")})

@run.on_checkpoint
def save(step):
    print("saved at", step, flush=True)

w, seen = jnp.ones(256), level.value
for turn in run.steps(range(100_000)):
    w, loss = train_step(w, run.hyper.learning_rate)
    run.log(loss=loss)
    if level.value != seen:
        seen = level.value
        print("level", seen, flush=True)
    time.sleep(0.02)
print("ended with", float(run.hyper.learning_rate), "compiled", train_step._cache_size())`;

test('a busy cell is paused, changed, saved and stopped from the page, before and after a reload', async ({
  lab,
  page
}) => {
  await writeFile(join(lab.rootDir, 'steered.ipynb'), notebookText([SET_UP, TRAIN]));
  await openNotebook(page, 'steered.ipynb');
  const panel = new TPULabPanel(page);
  await panel.open();
  expect(await page.notebook.runCell(0, true)).toBe(true);
  const output = async (): Promise<string> => (await readCells(page))[1]?.text ?? '';
  await page.notebook.selectCells(1);
  await page.keyboard.press('Control+Enter');

  // The bar moves: the split of the steps is shown, and the count of steps increases.
  const steps = await panel.section('Where the time goes');
  const run = await panel.section('Run');
  await expect(steps.getByRole('img', { name: /^Where the time went: .*host/ })).toBeVisible();
  await expect.poll(() => stepOf(run)).toBeGreaterThan(20);
  await expect(await panel.mainChart('loss')).toBeVisible();

  // The cell is busy all the time: it answers none of the following requests.
  const field = (await panel.section('Hyperparameters')).getByRole('textbox', {
    name: 'learning_rate, exactly'
  });
  await field.fill('0.02');
  await field.press('Enter');
  await expect(await panel.requests()).toContainText(/learning_rate 0\.001000 → 0\.02000 · applied/);

  // So does the slider that this cell has created itself; the panel has its own sliders.
  const handle = page.getByRole('feed', { name: 'Cells' }).getByRole('slider');
  await handle.focus();
  await handle.press('ArrowRight');
  await expect.poll(output).toContain('level 2\n');

  await run.getByRole('button', { name: 'Checkpoint' }).click();
  await expect.poll(output).toMatch(/saved at \d+\n/);

  await run.getByRole('button', { name: 'Pause' }).click();
  await expect(run).toContainText('paused');
  const held = await pausedStep(panel, run);
  for (const theme of ['light', 'high contrast'] as const) {
    await setTheme(page, theme);
    await checkAccessibility(page, panel.root);
  }

  await page.reload();
  await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
  await panel.open();
  const again = await panel.section('Run');
  await expect(again).toContainText('paused');
  // With its history: the steps and the commands from before the reload.
  await expect.poll(() => stepOf(again)).toBe(held);
  await expect(await panel.requests()).toContainText(/→ 0\.02000 · applied/);

  await again.getByRole('button', { name: 'Resume' }).click();
  await expect.poll(() => stepOf(again)).toBeGreaterThan(held);
  await again.getByRole('button', { name: 'Stop after this step' }).click();
  await expect(again).toContainText('stopped');
  await expect(again.getByRole('button', { name: /^(Pause|Resume)$/ })).toBeDisabled();
});

test('a hyperparameter that changes never compiles the step again', async ({ lab, page }) => {
  await writeFile(join(lab.rootDir, 'compiled.ipynb'), notebookText([SET_UP, TRAIN]));
  await openNotebook(page, 'compiled.ipynb');
  const panel = new TPULabPanel(page);
  await panel.open();
  expect(await page.notebook.runCell(0, true)).toBe(true);
  await page.notebook.selectCells(1);
  await page.keyboard.press('Control+Enter');
  const run = await panel.section('Run');
  await expect.poll(() => stepOf(run)).toBeGreaterThan(5);
  // By the keyboard alone, on the logarithmic slider.
  const slider = (await panel.section('Hyperparameters')).getByRole('slider', { name: 'learning_rate' });
  await slider.focus();
  await slider.press('PageUp');
  await expect(await panel.requests()).toContainText('applied');
  await run.getByRole('button', { name: 'Stop after this step' }).click();
  const output = async (): Promise<string> => (await readCells(page))[1]?.text ?? '';
  await expect.poll(output).toMatch(/ended with 0\.00[1-9]\d* compiled 1\n/);
  expect(Number(/ended with (\S+)/.exec(await output())?.[1])).toBeGreaterThan(0.001);
});
