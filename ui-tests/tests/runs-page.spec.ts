/** The page of runs, in the session page and in JupyterLab, with runs of real trainings: table, labels, why one is slower, files. */
import { readFile } from 'node:fs/promises';
import type { Locator, Page } from '@playwright/test';
import { checkAccessibility } from './accessibility.js';
import { notebookText } from './notebook-file.js';
import { cell, complaintsOf, expect, open, run, test } from './session-steps.js';

const TRAIN = `import time, jax, jax.numpy as jnp, tpulab

def loader(count, seconds):
    for at in range(count):
        time.sleep(seconds)
        yield at

def train(name, config, count, seconds, rows):
    @jax.jit
    def train_step(w):
        return w * 0.9, jnp.mean(w ** 2)
    run = tpulab.run(name, config, tokens_per_step=100)
    w = jnp.ones((rows, 8))
    for _ in run.steps(loader(count, seconds)):
        w, loss = train_step(w)
        run.log(loss=loss, half=loss / 2)
    run.finish()

train("fast", {"workers": 8, "rows": 64}, 60, 0.001, 64)
train("slow", {"workers": 1, "rows": 64}, 50, 0.03, 64)
train("wide", {"workers": 8, "rows": 96}, 40, 0.001, 96)
print("trained")`;

async function downloaded(page: Page, button: Locator): Promise<string> {
  const [file] = await Promise.all([page.waitForEvent('download'), button.click()]);
  return readFile(await file.path(), 'utf8');
}

test('shows in the session page why one run is slower than another, and gives both as files', async ({
  page,
  gateway
}) => {
  const complaints = complaintsOf(page);
  await gateway.write('runs.ipynb', notebookText([TRAIN]));
  await open(page, gateway, 'runs.ipynb');
  await run(page, 0);
  await expect(cell(page, 0)).toContainText('trained');

  await page.goto(gateway.link());
  await page.getByRole('link', { name: 'Runs', exact: true }).click();
  const table = page.getByRole('region', { name: 'Table of runs' });
  const row = (name: string): Locator => table.getByRole('row').filter({ hasText: name });
  await expect(row('slow')).toContainText('finished');
  await expect(row('slow')).toContainText('runs.ipynb');
  await expect(row('slow')).toContainText('50');
  // Settings that are the same in all runs have no column.
  await expect(table.getByRole('columnheader', { name: 'workers' })).toBeVisible();

  // The span that increased: the loader sleeps 30 ms instead of 1 ms.
  await table.getByRole('checkbox', { name: 'Choose fast' }).focus();
  await page.keyboard.press('Space');
  await table.getByRole('checkbox', { name: 'Choose slow' }).check();
  const why = page.getByRole('region', { name: /^Steps of/ });
  await expect(why).toContainText('Why is B slower than A?');
  await expect(why).toContainText(/B takes .* more per step\. It waits .* longer for input\./);
  await expect(why).toContainText('workers');
  await expect(why).not.toContainText('program changed');
  await expect(page.getByRole('slider', { name: 'loss' })).toBeVisible();
  await checkAccessibility(page, page.locator('.jp-TPULabRuns'));

  // Labels, used by search and groups.
  await page.getByRole('button', { name: 'Tag…' }).click();
  await page.getByRole('textbox', { name: 'Tags, separated by commas' }).fill('baseline, night');
  await page.keyboard.press('Enter');
  await expect(row('slow')).toContainText('baseline');
  await page.getByRole('button', { name: 'Group…' }).click();
  await page.getByRole('textbox', { name: 'Group' }).fill('loaders');
  await page.keyboard.press('Enter');
  await expect(table.getByRole('button', { name: /loaders/ })).toBeVisible();
  await table.getByRole('button', { name: /loaders/ }).click();
  await expect(row('slow')).toBeVisible();

  // As files.
  const chosen = page.getByRole('group', { name: 'Chosen runs' });
  const lines = (await downloaded(page, chosen.getByRole('button', { name: 'Table as CSV' }))).split('\r\n');
  expect(lines[0]).toContain('step_ms,device_ms,input_ms,host_ms,idle_ms,rows,workers');
  expect(lines.slice(1, 3).map(line => line.split(',')[0])).toEqual(['fast', 'slow']);
  const curves = await downloaded(page, chosen.getByRole('button', { name: 'Curves as CSV' }));
  expect(
    curves.split('\r\n').filter(line => line.startsWith('slow,') && line.includes(',loss,'))
  ).toHaveLength(50);

  // Another program of the same name: distinguished by its fingerprint.
  await page.getByRole('button', { name: 'Choose none' }).click();
  await table.getByRole('checkbox', { name: 'Choose fast' }).check();
  await table.getByRole('checkbox', { name: 'Choose wide' }).check();
  await expect(why).toContainText('1 program changed');
  await expect(why).toContainText('train_step');

  // The keyboard: search, and one run whole.
  await table.getByRole('checkbox', { name: 'Choose wide' }).focus();
  await page.keyboard.press('/');
  await page.keyboard.type('night rows=64');
  await expect(row('wide')).toBeHidden();
  await table.getByRole('button', { name: 'slow', exact: true }).press('Enter');
  const whole = page.getByRole('article', { name: 'Run slow' });
  await expect(whole).toContainText('Where the time goes');
  await expect(whole).toContainText(/input .* ms/);
  await expect(whole.getByRole('slider', { name: 'half' })).toBeVisible();
  await checkAccessibility(page, whole);
  await whole.getByRole('button', { name: 'All runs' }).click();
  await expect(row('slow')).toBeVisible();
  expect(complaints).toEqual([]);
});
