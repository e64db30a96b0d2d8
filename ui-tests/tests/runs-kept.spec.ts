/** The results of a training: its steps as files and as a picture, its history after a reload, its curves compared with another run's. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Locator, Page } from '@playwright/test';
import { checkAccessibility } from './accessibility.js';
import { expect, test } from './fixtures.js';
import { openNotebook, readCells } from './lab-page.js';
import { notebookText } from './notebook-file.js';
import { TPULabPanel } from './tpulab-panel.js';

const TRAIN = `import jax, jax.numpy as jnp, tpulab

@jax.jit
def train_step(w):
    return w * 0.9, jnp.mean(w ** 2)

def train(name, count, start):
    run = tpulab.run(name, {"start": start})
    w = jnp.full(256, start)
    for _ in run.steps(range(count)):
        w, loss = train_step(w)
        run.log(loss=loss)
    run.finish()

train("first", 40, 1.0)`;

/** A run that can be steered ends as `stopped`, whatever ended it. */
const ENDED = /(finished|stopped)second/;

const SECOND_RUN = `train("second", 30, 2.0)`;
const ALL_STEPS = '30 of 30 steps';

/** The name and the text of the file that a button of the panel downloads. */
async function downloaded(page: Page, button: Locator): Promise<{ name: string; text: string }> {
  const [file] = await Promise.all([page.waitForEvent('download'), button.click()]);
  return { name: file.suggestedFilename(), text: await readFile(await file.path(), 'utf8') };
}

/** An item of the menu below the steps. */
async function choice(steps: Locator, name: string): Promise<Locator> {
  await steps.getByRole('button', { name: 'More: table, trace, export' }).click();
  return steps.getByRole('menuitem', { name });
}

test('the steps of a finished run are exported, stored over a reload, and compared with another run', async ({
  lab,
  page
}) => {
  await writeFile(join(lab.rootDir, 'kept.ipynb'), notebookText([TRAIN, SECOND_RUN]));
  await writeFile(join(lab.rootDir, 'another.ipynb'), notebookText([TRAIN]));
  await openNotebook(page, 'kept.ipynb');
  const panel = new TPULabPanel(page);
  await panel.open();
  expect(await page.notebook.runCell(0, true)).toBe(true);
  expect(await page.notebook.runCell(1, true)).toBe(true);
  const steps = await panel.section('Where the time goes');
  await expect(await panel.section('Run')).toContainText(ENDED);
  // The state of the controller is reported before the last steps.
  await expect(await panel.section('Run')).toContainText(ALL_STEPS);

  // As a table: every step, with the run's logged values.
  const csv = await downloaded(page, await choice(steps, 'Export as CSV'));
  expect(csv.name).toBe('second.csv');
  const [head, ...rows] = csv.text.trimEnd().split('\r\n');
  expect(head).toBe(
    'step,start_unix_ms,wall_ms,input_ms,host_ms,compile_ms,device_ms,gap_ms,device_known,loss'
  );
  expect(rows.map(row => Number(row.split(',')[0]))).toEqual(Array.from({ length: 30 }, (_, at) => at));
  for (const row of rows) {
    const [wall = 0, ...spans] = row.split(',').slice(2, 8).map(Number);
    expect(spans.reduce((sum, span) => sum + span, 0)).toBeCloseTo(wall, 1);
  }

  // Two curves in one chart, each with its name.
  const others = await panel.section('Other runs');
  await others.getByRole('checkbox', { name: 'Compare with first' }).check();
  const chart = (await panel.section('Metrics')).getByRole('figure').filter({ hasText: 'loss' });
  await expect(chart).toContainText('second');
  await expect(chart).toContainText('first');
  await page.notebook.save();

  // The same steps after a reload of the page.
  await page.reload();
  await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
  await panel.open();
  const again = await panel.section('Where the time goes');
  await expect(await panel.section('Run')).toContainText(ENDED);
  await expect(await panel.section('Run')).toContainText(ALL_STEPS);
  await expect(again.getByRole('img', { name: /^Where the time went/ })).toBeVisible();
  expect((await downloaded(page, await choice(again, 'Export as CSV'))).text).toBe(csv.text);

  // The runs of that kernel are listed beside another one.
  await openNotebook(page, 'another.ipynb');
  await panel.open();
  const elsewhere = await panel.section('Other runs');
  await expect(elsewhere.getByRole('listitem').filter({ hasText: 'second' })).toContainText('30 steps');

  // The page of runs, with the same runs.
  await page.evaluate(() =>
    (
      window as unknown as { jupyterapp: { commands: { execute(id: string): Promise<void> } } }
    ).jupyterapp.commands.execute('tpulab:open-runs')
  );
  const runs = page.getByRole('region', { name: 'TPULab runs' });
  for (const name of ['first', 'second']) {
    await runs.getByRole('checkbox', { name: `Choose ${name}` }).check();
  }
  await expect(runs.getByRole('region', { name: /^Steps of/ })).toContainText('per step');
  await expect(runs.getByRole('figure').filter({ hasText: 'A first' })).toContainText('B second');
  await checkAccessibility(page, runs);
  await runs.getByRole('button', { name: 'second', exact: true }).click();
  await expect(
    runs.getByRole('article', { name: 'Run second' }).getByRole('slider', { name: 'loss' })
  ).toBeVisible();
});

const BRANCHED = `import tpulab
run = tpulab.run("lm", hyperparameters={"rate": tpulab.hyper(0.5, min=0, max=1)}, log="checkpoints")
run.on_checkpoint(lambda step: f"checkpoints/{step}", every=10)
start = run.restore(lambda checkpoint: None)
for step in run.steps(range(start, 40)):
    run.log(loss=run.hyper["rate"] * step)
run.finish()
print(start, run.hyper["rate"])`;

test('a run is branched at a checkpoint, with one value changed', async ({ lab, page }) => {
  await writeFile(join(lab.rootDir, 'branched.ipynb'), notebookText([BRANCHED]));
  await openNotebook(page, 'branched.ipynb');
  const panel = new TPULabPanel(page);
  await panel.open();
  expect(await page.notebook.runCell(0, true)).toBe(true);
  const log = await panel.section('Log');
  await log.getByText('Branch…').click();
  await log.getByLabel('From the checkpoint at step').selectOption('20');
  await log.getByLabel('change').selectOption('rate');
  await log.getByRole('textbox', { name: 'rate, exactly' }).fill('0.25');
  await log.getByRole('textbox', { name: 'rate, exactly' }).press('Enter');
  await log.getByRole('button', { name: 'Branch' }).click();
  await expect(log.getByRole('status')).toContainText('the next run begins at step 20, with rate = 0.25');
  await checkAccessibility(page, log);

  expect(await page.notebook.runCell(0, true)).toBe(true);
  await expect.poll(async () => JSON.stringify(await readCells(page))).toContain('20 0.25');
  await page.evaluate(() =>
    (
      window as unknown as { jupyterapp: { commands: { execute(id: string): Promise<void> } } }
    ).jupyterapp.commands.execute('tpulab:open-runs')
  );
  const runs = page.getByRole('region', { name: 'TPULab runs' });
  // The newest run is stored, and listed, shortly after its cell has ended.
  await expect(runs.getByRole('button', { name: 'lm' })).toHaveCount(2);
  await runs.getByRole('button', { name: 'lm' }).first().click();
  await expect(runs).toContainText('Branch of lm at step 20');
  await runs.getByText('Branch…').click();
  await runs.getByRole('button', { name: 'Branch' }).click();
  await expect(runs.getByRole('status')).toContainText('the next run begins at step 40');
  await runs.getByRole('button', { name: 'Compare with lm' }).click();
  await expect(runs.getByRole('figure').filter({ hasText: 'A lm' })).toContainText('B lm');
});

const ALARMED = `import tpulab
tpulab.alert(when="loss > 5")
run = tpulab.run("lm", log=False)
for step in run.steps(range(20)):
    run.log(loss=step)
run.finish()`;

test('a hidden page shows an alert of a run as a notification of the browser', async ({
  lab,
  page,
  context
}) => {
  await context.grantPermissions(['notifications']);
  await writeFile(join(lab.rootDir, 'alarmed.ipynb'), notebookText([ALARMED]));
  await openNotebook(page, 'alarmed.ipynb');
  // The browser's own notifications, recorded when they are shown.
  await page.evaluate(() => {
    const Shown = window.Notification;
    const texts: string[] = [];
    class Recorded extends Shown {
      constructor(title: string, options?: NotificationOptions) {
        super(title, options);
        this.addEventListener('show', () => texts.push(`${title}: ${options?.body ?? ''}`));
      }
    }
    Object.assign(window, { Notification: Recorded, shownNotices: texts });
  });
  const shown = () => page.evaluate(() => (window as unknown as { shownNotices: string[] }).shownNotices);
  expect(await page.notebook.runCell(0, true)).toBe(true);
  const card = page.locator('.Toastify__toast').filter({ hasText: 'lm: At step 6, loss is 6' });
  await expect(card).toBeVisible();
  // A user who sees the page has the card.
  expect(await shown()).toEqual([]);

  await page.evaluate(() => Object.defineProperty(document, 'hidden', { get: () => true }));
  expect(await page.notebook.runCell(0, true)).toBe(true);
  await expect.poll(shown).toContainEqual(expect.stringContaining('TPULab: lm: At step 6, loss is 6'));
});
