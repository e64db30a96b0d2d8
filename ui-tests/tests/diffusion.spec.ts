/** Notebook 05 in the page: a diffusion model is trained, steered by the notebook's widgets and the panel, and its results are checked. */
import { expect, test } from './fixtures.js';
import { openNotebook, runInKernel } from './lab-page.js';
import {
  pausedStep,
  printedBy,
  readChart,
  runAbove,
  setHyperparameter,
  startCell,
  stepOf,
  trainingControls,
  writeWithSettings
} from './notebook-training.js';
import { lineEnds, readPicture } from './picture.js';
import { TPULabPanel } from './tpulab-panel.js';

const NOTEBOOK = '05-ddpm.ipynb';
/** Steps in one point of the notebook's own curve. */
const STEPS_LOGGED = 4;
/** A network of a quarter of the width, compiled quickly, which would train until it is stopped. */
const SETTINGS = [
  'import os',
  'os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"',
  `settings = {"model.args.ch": 16, "model.args.emb_ch": 32, "train.batch_size": 16,`,
  `    "model.eval_sampling_num_steps": 8, "train.log_loss_every_steps": ${STEPS_LOGGED}}`,
  'train_steps = 100_000'
];
/** matplotlib's first colour: the loss. */
const BLUE = [31, 119, 180] as const;

/** The kernel's state after the training. The last evaluation is repeated, from the present weights. */
const PROBE = `
import hashlib, json
from tpulab_recipes.common.pictures import grid, png
_sha256 = lambda content: hashlib.sha256(bytes(content)).hexdigest()
_again = evaluate(trainer.state.ema, guidance=2.0)
print(json.dumps({
    "steps": trainer.step,
    "history": [[row.step, row.loss, row.learning_rate] for row in trainer.history],
    "sampledAt": [step for step, _ in live.found],
    "curves": _sha256(live.curves.value),
    "samples": _sha256(live.samples.value),
    "samplesAgain": _sha256(png(grid(_again.images[:32], 8, scale=3))),
    "compiled": [trainer.compilations(), evaluate.sampler.compilations()],
}))`;

interface Found {
  readonly steps: number;
  /** Step, mean loss of the steps up to it, learning rate. */
  readonly history: readonly (readonly [number, number, number])[];
  readonly sampledAt: readonly number[];
  readonly curves: string;
  readonly samples: string;
  readonly samplesAgain: string;
  readonly compiled: readonly [number, number];
}

// The live pictures, the controls and the training stand below each other: all in view, as on a tall screen.
test.use({ viewport: { width: 1440, height: 2000 } });

test(
  "a diffusion model is steered from the page, and its curve and its images match the kernel's",
  { tag: '@long' },
  async ({ lab, page }) => {
    test.setTimeout(720_000);
    await writeWithSettings(lab, NOTEBOOK, SETTINGS);
    await openNotebook(page, NOTEBOOK);
    const panel = new TPULabPanel(page);
    await panel.open();
    await runAbove(page, 'train');
    const controls = trainingControls(page);
    await expect(controls).toContainText('Waiting for the first step.');
    await startCell(page, 'train');

    const run = await panel.section('Run');
    await expect.poll(() => stepOf(run), { timeout: 360_000 }).toBeGreaterThan(10);
    await setHyperparameter(controls, 'learning_rate', '0.004');
    await expect(await panel.requests()).toContainText(/learning_rate 0\.002000 → 0\.004000 · applied/);

    await controls.getByRole('button', { name: 'Pause' }).click();
    await expect(run).toContainText('paused');
    const held = await pausedStep(panel, run);
    await run.getByRole('button', { name: 'Resume' }).click();
    await expect(controls).toContainText('running');
    // A point of the curve is made after the change.
    await expect.poll(() => stepOf(run)).toBeGreaterThan(Math.max(held + STEPS_LOGGED, 60));

    // Samples are generated from the weights at which the run is paused, and it ends there: they can be generated again.
    await run.getByRole('button', { name: 'Pause' }).click();
    await expect(controls).toContainText('paused');
    const [curves, samples] = [page.locator('.widget-image').nth(0), page.locator('.widget-image').nth(1)];
    expect(await samples.evaluate((image: HTMLImageElement) => image.naturalWidth)).toBe(0);
    await controls.getByRole('button', { name: 'Sample now' }).click();
    await expect(await panel.requests()).toContainText(/sample · [\d.,]+ m?s/);
    await controls.getByRole('button', { name: 'Stop after this step' }).click();
    await expect(run).toContainText('stopped');
    await expect
      .poll(() => printedBy(page, 'train'))
      .toMatch(/the training step was compiled 1 time\(s\)\n$/);

    const found = JSON.parse(await runInKernel(page, PROBE)) as Found;
    expect(found.compiled).toEqual([1, 1]);
    expect((await panel.compilationCounts()).get('step')).toBe(1);
    await expect.poll(() => stepOf(run)).toBe(found.steps);
    await expect.poll(() => stepOf(controls)).toBe(found.steps);
    const rates = found.history.map(([, , rate]) => rate);
    expect(Math.max(...rates.slice(0, 2))).toBeLessThanOrEqual(0.002);
    expect(rates.at(-1)).toBeCloseTo(0.004, 5);

    // The panel's chart has each step, the notebook's curve their means, and both decrease.
    const chart = await panel.mainChart('loss');
    const { first, last } = await readChart(chart, STEPS_LOGGED);
    expect(first.map(({ step }) => step)).toEqual([0, 1, 2, 3]);
    const mean = first.reduce((sum, { value }) => sum + value, 0) / STEPS_LOGGED;
    const [firstLoss, lastLoss] = [found.history[0]?.[1] ?? NaN, found.history.at(-1)?.[1] ?? NaN];
    expect(mean / firstLoss).toBeCloseTo(1, 3);
    expect(last.step).toBe(found.steps - 1);
    expect(lastLoss).toBeLessThan(0.7 * firstLoss);
    const drawn = await lineEnds(curves, BLUE);
    expect(drawn.right).toBeLessThan(drawn.left);
    expect((await readPicture(curves)).sha256).toBe(found.curves);

    // 32 images of 16 x 16 pixels, each pixel three times as large, with a line between them.
    expect(found.sampledAt).toEqual([found.steps]);
    expect(await readPicture(samples)).toEqual({
      sha256: found.samplesAgain,
      width: 8 * 49 + 1,
      height: 4 * 49 + 1
    });
    expect(found.samples).toBe(found.samplesAgain);
  }
);
