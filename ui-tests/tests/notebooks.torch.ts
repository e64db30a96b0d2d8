/**
 * Notebooks 04 and 06 to 08 in the page, on PyTorch/XLA: trained with their widgets, and stopped; panel and notebook agree. They need the
 * environment `torch-xla`, so they are in the part `torch` of `npm test`, which runs the first, and in `npm run test:torch`:
 * `TPULAB_TORCH_PAGES=1` has Playwright run them and no others.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Locator } from '@playwright/test';
import { expect, test } from './fixtures.js';
import { readCells, runInKernel } from './lab-page.js';
import {
  pausedStep,
  printedBy,
  setHyperparameter,
  startCell,
  startTraining,
  stepOf
} from './notebook-training.js';

// The controls and the training stand below each other: both in view, as on a tall screen.
test.use({ viewport: { width: 1440, height: 1600 } });

/** Counts, in the kernel, how often the compiler had run after each step. */
const COUNT_COMPILATIONS = new URL('../../tests/probes/compilations_of_steps.py', import.meta.url);

/**
 * XLA compiles in a third of the time, and its programs are slower: for trainings that are stopped after some steps. Their learning
 * results are checked in tests/torch_notebooks.
 */
const COMPILE_QUICKLY = ['import os', 'os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"'];

/** The values of these expressions in Python, as JSON. */
async function request(page: Parameters<typeof runInKernel>[0], expressions: string): Promise<unknown> {
  return JSON.parse(await runInKernel(page, `import json\nprint(json.dumps([${expressions}]))`));
}

/** Panel and widget have counted the notebook's steps, and show the loss of its last one. */
async function expectSameSteps(run: Locator, controls: Locator, losses: readonly number[]): Promise<void> {
  for (const shown of [run, controls]) {
    await expect.poll(() => stepOf(shown)).toBe(losses.length);
    const loss = async (): Promise<number> =>
      Number(/loss (\d+\.\d+)/.exec(await shown.innerText())?.[1]) / (losses.at(-1) ?? NaN);
    await expect.poll(loss).toBeCloseTo(1, 3);
  }
}

test("notebook 04 is fine-tuned with its widgets, and the panel matches the notebook's results", async ({
  lab,
  page
}) => {
  test.setTimeout(720_000);
  const settings = [
    ...COMPILE_QUICKLY,
    'epochs = 1_000',
    'with_accelerate = False',
    "model_name = ''",
    await readFile(COUNT_COMPILATIONS, 'utf8')
  ];
  const { panel, run, controls } = await startTraining(
    page,
    lab,
    '04-bert-fine-tune.ipynb',
    settings,
    'BERT'
  );

  await setHyperparameter(controls, 'learning_rate', '0.002');
  const log = await panel.requests();
  await expect(log).toContainText(/learning_rate 3\.00e-4 → 0\.002000 · applied/);
  await controls.getByRole('button', { name: 'Checkpoint' }).click();
  await expect(log).toContainText(/checkpoint · [\d.,]+ m?s/);
  expect(await readdir(join(lab.rootDir, 'checkpoints', 'bert'))).not.toEqual([]);
  // Beyond the first epoch, whose evaluation is shown in the panel too.
  await expect
    .poll(() => printedBy(page, 'training'), { timeout: 300_000 })
    .toMatch(/^epoch 1: weighted F1 /);
  await controls.getByRole('button', { name: 'Stop after this step' }).click();
  await expect(run).toContainText('stopped');

  const [losses, peak, compilations] = (await request(
    page,
    '[float(loss) for loss in losses], trainer.peak, compilations_after[run.name]'
  )) as [number[], number, number[]];
  expect(peak).toBe(0.002);
  // One program may be new since step 2: the evaluation after the first epoch.
  expect(compilations).toHaveLength(losses.length);
  expect((compilations.at(-1) ?? 0) - (compilations[1] ?? NaN)).toBeLessThanOrEqual(1);
  await expectSameSteps(run, controls, losses);

  // No learning happens after the stop: the score is from the evaluation at the end of the last epoch.
  await startCell(page, 'after');
  await expect.poll(() => printedBy(page, 'after')).toMatch(/^accuracy .*, weighted F1 /);
  const [score, scores] = (await request(page, 'after.weighted_f1, scores')) as [number, number[]];
  expect(score).toBe(scores.at(-1));
  expect((await readCells(page)).flatMap(({ errors }) => errors)).toEqual([]);
});

test(
  'notebook 06 is steered while it trains, and every checkpoint can be played in the page',
  { tag: '@long' },
  async ({ lab, page }) => {
    test.setTimeout(720_000);
    const settings = [
      ...COMPILE_QUICKLY,
      'settings = {"epochs": 1_000}',
      'sample_every = 1_000_000',
      await readFile(COUNT_COMPILATIONS, 'utf8')
    ];
    const { panel, run, controls } = await startTraining(page, lab, '06-dia.ipynb', settings, 'Dia');

    await setHyperparameter(controls, 'learning_rate', '0.002');
    const log = await panel.requests();
    await expect(log).toContainText(/learning_rate 0\.008000 → 0\.002000 · applied/);
    await setHyperparameter(controls, 'text_dropout', '0.5');
    await expect(log).toContainText(/text_dropout 0\.15\d* → 0\.50* · applied/);
    await controls.getByRole('button', { name: 'Checkpoint' }).click();
    await expect(log).toContainText(/checkpoint · [\d.,]+ m?s/);
    const saved = await readdir(join(lab.rootDir, 'dia-run'));
    expect(saved.filter(file => /^step-\d{8}\.pt$/.test(file))).toHaveLength(1);
    await controls.getByRole('button', { name: 'Pause' }).click();
    await expect(run).toContainText('paused');
    const held = await pausedStep(panel, run);
    await controls.getByRole('button', { name: 'Sample now' }).click();
    await expect(log).toContainText(/sample · [\d.,]+ m?s/);
    await run.getByRole('button', { name: 'Resume' }).click();
    await expect.poll(() => stepOf(run)).toBeGreaterThan(held + 3);
    await controls.getByRole('button', { name: 'Stop after this step' }).click();
    await expect(run).toContainText('stopped');

    const [losses, peak, dropout, compilations, sampled, seconds] = (await request(
      page,
      '[float(loss) for loss in losses], trainer.peak, run.hyper["text_dropout"], compilations_after[run.name], sorted(samples),' +
        ' [len(sound_of(codes[place])) / codec.sample_rate for place in (0, 1) for codes in samples.values() if len(codes[place])]'
    )) as [number[], number, number, number[], number[], number[]];
    expect([peak, dropout]).toEqual([0.002, 0.5]);
    // The last steps before a pause may be reported to the panel only after it.
    const at = sampled[1] ?? NaN;
    expect(sampled).toEqual([0, at]);
    expect(at).toBeGreaterThanOrEqual(held);
    expect(at).toBeLessThan(losses.length);
    // No compilation since step 2: neither for the steps, nor for their new values, nor for the sample.
    expect(compilations).toHaveLength(losses.length);
    expect(new Set(compilations.slice(1)).size).toBe(1);
    await expectSameSteps(run, controls, losses);

    // One player for each sample of each text, with the reported length.
    const shown = page.locator('.jp-CodeCell').filter({ hasText: 'def batches' });
    await expect(shown.locator('figcaption').filter({ hasText: `step ${at}` })).not.toHaveCount(0);
    const players = shown.locator('audio');
    const durations = (): Promise<number[]> =>
      players.evaluateAll(each => each.map(player => (player as HTMLAudioElement).duration));
    await expect.poll(async () => (await durations()).filter(Number.isFinite).length).toBe(seconds.length);
    const lengths = await durations();
    seconds.forEach((length, place) => expect(lengths[place]).toBeCloseTo(length, 2));
  }
);

test(
  'notebook 07 is steered while two networks learn, and a converted sample can be played in the page',
  { tag: '@long' },
  async ({ lab, page }) => {
    test.setTimeout(720_000);
    // Smaller networks: learning results are not checked here.
    const settings = [
      ...COMPILE_QUICKLY,
      'settings = {"periods": (2,), "resblock_dilation_sizes": ((1,),), "posterior_layers": 1}',
      'steps = 1_000',
      'sample_every = 1_000_000',
      await readFile(COUNT_COMPILATIONS, 'utf8')
    ];
    const { panel, run, controls } = await startTraining(
      page,
      lab,
      '07-gpt-sovits.ipynb',
      settings,
      'GPT-SoVITS'
    );

    await setHyperparameter(controls, 'learning_rate', '0.001');
    const log = await panel.requests();
    await expect(log).toContainText(/learning_rate 0\.003000 → 0\.001000 · applied/);
    await setHyperparameter(controls, 'mel_weight', '30');
    await expect(log).toContainText(/mel_weight 45 → 30 · applied/);
    await controls.getByRole('button', { name: 'Checkpoint' }).click();
    await expect(log).toContainText(/checkpoint · [\d.,]+ m?s/);
    const saved = await readdir(join(lab.rootDir, 'gpt-sovits-run'));
    expect(saved.filter(file => /^step-\d{8}\.pt$/.test(file))).toHaveLength(1);
    await controls.getByRole('button', { name: 'Sample now' }).click();
    await expect(log).toContainText(/sample · [\d.,]+ m?s/);
    const changed = await stepOf(run);
    await expect.poll(() => stepOf(run)).toBeGreaterThan(changed + 3);
    await controls.getByRole('button', { name: 'Stop after this step' }).click();
    await expect(run).toContainText('stopped');

    const [losses, rate, weight, compilations, seconds] = (await request(
      page,
      '[float(each["generator"]) for each in losses], trainer.learning_rate, trainer.c_mel, compilations_after[run.name],' +
        ' [len(wave) / config.sampling_rate for wave in samples.values()]'
    )) as [number[], number, number, number[], number[]];
    expect([rate, weight]).toEqual([0.001, 30]);
    // No compilation since step 2: neither for the steps, nor for their new values, nor for the sample.
    expect(compilations).toHaveLength(losses.length);
    expect(new Set(compilations.slice(1)).size).toBe(1);
    await expectSameSteps(run, controls, losses);

    const players = page.locator('.jp-CodeCell').filter({ hasText: 'def batches' }).locator('audio');
    const durations = (): Promise<number[]> =>
      players.evaluateAll(each => each.map(player => (player as HTMLAudioElement).duration));
    await expect.poll(async () => (await durations()).filter(Number.isFinite).length).toBe(seconds.length);
    const lengths = await durations();
    seconds.forEach((length, place) => expect(lengths[place]).toBeCloseTo(length, 2));
  }
);

test(
  'notebook 08 is steered while it trains, and its samples are shown and played in the page',
  { tag: '@long' },
  async ({ lab, page }) => {
    test.setTimeout(720_000);
    const settings = [
      ...COMPILE_QUICKLY,
      'settings = {"num_epochs": 1_000, "corpus_count": 40}',
      'sample_every = 1_000_000',
      await readFile(COUNT_COMPILATIONS, 'utf8')
    ];
    const { panel, run, controls } = await startTraining(
      page,
      lab,
      '08-english-tts.ipynb',
      settings,
      'English voice'
    );

    await setHyperparameter(controls, 'learning_rate', '0.001');
    const log = await panel.requests();
    await expect(log).toContainText(/learning_rate 0\.002000 → 0\.001000 · applied/);
    await controls.getByRole('button', { name: 'Checkpoint' }).click();
    await expect(log).toContainText(/checkpoint · [\d.,]+ m?s/);
    const saved = await readdir(join(lab.rootDir, 'english-tts-run'));
    expect(saved.filter(file => /^step-\d{8}\.pt$/.test(file))).toHaveLength(1);
    await controls.getByRole('button', { name: 'Sample now' }).click();
    await expect(log).toContainText(/sample · [\d.,]+ m?s/);
    await controls.getByRole('button', { name: 'Stop after this step' }).click();
    await expect(run).toContainText('stopped');

    const [losses, peak, compilations, sampled] = (await request(
      page,
      '[float(loss) for loss in losses], trainer.peak, compilations_after[run.name], sorted(samples)'
    )) as [number[], number, number[], number[]];
    expect(peak).toBeCloseTo(0.001, 7);
    // No compilation since step 2: neither for the steps, nor for the new rate, nor for the sample.
    expect(compilations).toHaveLength(losses.length);
    expect(new Set(compilations.slice(1)).size).toBe(1);
    await expectSameSteps(run, controls, losses);

    // Before the training and now: a player each, and the redrawn spectrogram.
    expect(sampled).toHaveLength(2);
    const shown = page.locator('.jp-CodeCell').filter({ hasText: 'def batches' });
    await expect(shown.locator('figcaption').filter({ hasText: `step ${sampled[1] ?? NaN}` })).toHaveCount(1);
    await expect(shown.locator('audio')).toHaveCount(2);
    await expect(shown.locator('img[src^="data:image/png"]').first()).toBeVisible();
  }
);
