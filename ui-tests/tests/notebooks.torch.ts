/**
 * Notebooks 01 and 04 in the page, on PyTorch/XLA: trained with their widgets, and stopped; panel and notebook agree. They need the
 * environment `torch-xla`, so they are in the part `torch` of `npm test`: `TPULAB_TORCH_PAGES=1` has Playwright run them and no others.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Locator } from '@playwright/test';
import { expect, test } from './fixtures.js';
import { readCells, runInKernel } from './lab-page.js';
import { printedBy, setHyperparameter, startCell, startTraining, stepOf } from './notebook-training.js';

// The controls and the training stand below each other: both in view, as on a tall screen.
test.use({ viewport: { width: 1440, height: 1600 } });

/** Panel and widget have counted the notebook's steps, and show the loss of its last one. */
async function expectSameSteps(run: Locator, controls: Locator, losses: readonly number[]): Promise<void> {
  for (const shown of [run, controls]) {
    await expect.poll(() => stepOf(shown)).toBe(losses.length);
    const loss = async (): Promise<number> =>
      Number(/loss (\d+\.\d+)/.exec(await shown.innerText())?.[1]) / (losses.at(-1) ?? NaN);
    await expect.poll(loss).toBeCloseTo(1, 3);
  }
}

test('notebook 01 is trained with its widgets, and what the panel shows is what the notebook found', async ({
  lab,
  page
}) => {
  test.setTimeout(720_000);
  const settings = ['batch_size = 32', 'epochs = 1_000'];
  const { panel, run, controls } = await startTraining(
    page,
    lab,
    '01-single-core.ipynb',
    settings,
    'AlexNet on one core'
  );
  const compiled = await panel.compilationCounts();
  expect(compiled.size).toBeGreaterThan(0);

  await setHyperparameter(controls, 'learning_rate', '0.0005');
  await expect(run.getByRole('list', { name: /^What was asked/ })).toContainText(
    /learning_rate 0\.001000 → 5\.00e-4 · applied/
  );
  const changed = await stepOf(run);
  await expect.poll(() => stepOf(run)).toBeGreaterThan(changed + 5);
  await controls.getByRole('button', { name: 'Stop after this step' }).click();
  await expect(run).toContainText('stopped');
  await expect
    .poll(() => printedBy(page, 'training'))
    .toMatch(/\d+ steps; programs compiled since step 2: 0\n$/);
  await expect(controls).toContainText('AlexNet on one core · stopped');
  expect(await panel.compilationCounts()).toEqual(compiled);

  const [, steps] = /(\d+) steps;/.exec(await printedBy(page, 'training')) ?? [];
  const found = JSON.parse(
    await runInKernel(
      page,
      'import json\nprint(json.dumps([losses, float(trainer.optimizer.param_groups[0]["lr"])]))'
    )
  ) as [number[], number];
  const [losses, rate] = found;
  expect(losses).toHaveLength(Number(steps));
  expect(rate).toBeCloseTo(0.0005, 7);
  await expectSameSteps(run, controls, losses);
});

test('notebook 04 is fine-tuned with its widgets, and what the panel shows is what the notebook found', async ({
  lab,
  page
}) => {
  test.setTimeout(720_000);
  const settings = ['epochs = 1_000', 'with_accelerate = False'];
  const { run, controls } = await startTraining(page, lab, '04-bert-fine-tune.ipynb', settings, 'BERT');

  await setHyperparameter(controls, 'learning_rate', '0.002');
  const log = run.getByRole('list', { name: /^What was asked/ });
  await expect(log).toContainText(/learning_rate 0\.003000 → 0\.002000 · applied/);
  await controls.getByRole('button', { name: 'Checkpoint' }).click();
  await expect(log).toContainText(/checkpoint · [\d.,]+ m?s/);
  expect(await readdir(join(lab.rootDir, 'checkpoints', 'bert'))).not.toEqual([]);
  // Beyond the first epoch, whose evaluation is seen in the panel too.
  await expect.poll(() => printedBy(page, 'training')).toMatch(/^epoch 1: loss /);
  await controls.getByRole('button', { name: 'Stop after this step' }).click();
  await expect(run).toContainText('stopped');
  await expect.poll(() => printedBy(page, 'training')).toMatch(/\d+ steps; compiled since step 2: [01]\n$/);

  const asked = (values: string): Promise<unknown> =>
    runInKernel(page, `import json\nprint(json.dumps([${values}]))`).then(
      text => JSON.parse(text) as unknown
    );
  const [losses, peak] = (await asked('losses, trainer.peak')) as [number[], number];
  expect(peak).toBe(0.002);
  await expectSameSteps(run, controls, losses);

  // Nothing is learned after the stop: the score is that of the evaluation at the end of the last epoch.
  await startCell(page, 'after');
  await expect.poll(() => printedBy(page, 'after')).toMatch(/^accuracy .*, weighted F1 /);
  const [score, scores] = (await asked('after.weighted_f1, scores')) as [number, number[]];
  expect(score).toBe(scores.at(-1));
  expect((await readCells(page)).flatMap(({ errors }) => errors)).toEqual([]);
});
