/** The widgets of the Python package in JupyterLab: live while their cell is busy, and a picture in the saved notebook. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Page } from '@playwright/test';
import { checkAccessibility } from './accessibility.js';
import { expect, test } from './fixtures.js';
import { openNotebook, readCells } from './lab-page.js';
import { notebookText } from './notebook-file.js';

const SHOW = `import time, jax, jax.numpy as jnp, tpulab

@jax.jit
def train_step(w, rate):
    return w - rate * w, jnp.mean(w ** 2)

run = tpulab.run("shown", hyperparameters={"rate": tpulab.hyper(1e-3, min=1e-6, max=1e-1, scale="log")})
display(tpulab.DeviceMonitor(), tpulab.StepTimeline(), tpulab.TrainingControls(run))`;

const TRAIN = `w = jnp.ones(64)
for turn in run.steps(range(100_000)):
    w, loss = train_step(w, run.hyper.rate)
    run.log(loss=loss)
    time.sleep(0.02)
print("ended at", float(run.hyper.rate))`;

/** Counts from now on the kernel's messages to the notebook's widgets; returns a function that reads the count. */
async function countSnapshots(page: Page): Promise<() => Promise<number>> {
  const counter = await page.evaluateHandle(() => {
    const counted = { snapshots: 0 };
    const { sessionContext } = window.jupyterapp.shell.currentWidget as NotebookPanel;
    sessionContext.session?.kernel?.iopubMessage.connect((_, message) => {
      if (message.header.msg_type === 'comm_msg' && JSON.stringify(message.content).includes('"_snapshot"')) {
        counted.snapshots += 1;
      }
    });
    return counted;
  });
  return () => counter.evaluate(({ snapshots }) => snapshots);
}

test('widgets made in a cell follow and steer the next one while it is busy', async ({ lab, page }) => {
  await writeFile(join(lab.rootDir, 'widgets.ipynb'), notebookText([SHOW, TRAIN]));
  await openNotebook(page, 'widgets.ipynb');
  expect(await page.notebook.runCell(0, true)).toBe(true);
  const cell = page.locator('.jp-Notebook .jp-CodeCell').first();
  const shown = cell.locator('.jp-TPULabWidget');
  await expect(shown).toHaveCount(3);
  const [devices, steps, controls] = [shown.nth(0), shown.nth(1), shown.nth(2)];
  // It belongs to this run, of which nothing is known before its first step begins.
  await expect(controls).toContainText(/^shown\s*Waiting for the first step\./);
  await page.notebook.selectCells(1);
  await page.keyboard.press('Control+Enter');

  await expect(devices).toContainText('8 XLA devices, CPU');
  await expect(steps).toContainText('/step');
  await expect(steps.getByRole('img', { name: /^Where the time went: .*host [1-9]/ })).toBeVisible();
  await expect(controls).toContainText(/\d of 100,000 steps/);
  const snapshots = await countSnapshots(page);

  const field = controls.getByRole('textbox', { name: 'rate, exactly' });
  await field.fill('0.05');
  await field.press('Enter');
  await expect(controls).toContainText(/rate 0\.001000 → 0\.05000 · applied/);
  await controls.getByRole('button', { name: 'Pause' }).click();
  await expect(controls).toContainText('paused');
  await checkAccessibility(page, cell.locator('.jp-Cell-outputArea'));
  await controls.getByRole('button', { name: 'Resume' }).click();
  await expect(controls).toContainText('running');
  // All of it came through the bridge: the same data was not sent through the widgets' comms.
  expect(await snapshots()).toBe(0);
  await controls.getByRole('button', { name: 'Stop after this step' }).click();
  await expect.poll(async () => (await readCells(page))[1]?.text ?? '').toMatch(/ended at 0\.05/);

  // The picture is from the end: it shows how the run ended.
  await expect
    .poll(async () => {
      await page.notebook.save();
      return readFile(join(lab.rootDir, 'widgets.ipynb'), 'utf8');
    })
    .toContain('shown: stopped');
  const saved = await readFile(join(lab.rootDir, 'widgets.ipynb'), 'utf8');
  expect(saved).toContain('application/vnd.jupyter.widget-view+json');
  expect(saved).toMatch(/<svg[^>]*>.*per step, last \d+ steps/);
});
