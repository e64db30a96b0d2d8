/**
 * Notebook 05 in the session page, from top to bottom with a small network. It compiles for minutes on a busy machine, and is run on
 * demand: `TPULAB_LESSON_PAGES=1 npx playwright test -c ui-tests/playwright.config.ts`.
 */
import { readNotebookWithoutOutputs } from '../lab/copy-notebooks.js';
import { expect, open, runAll, test } from './session-steps.js';

test('notebook 05 trains a small diffusion model from top to bottom', async ({ page, gateway }) => {
  const file = '05-ddpm.ipynb';
  const notebook = await readNotebookWithoutOutputs(file);
  const parameters = notebook.cells.find(({ metadata }) => metadata.tags?.includes('parameters'));
  // A network of a quarter of the width, and the smallest number of steps that tests all of it.
  const settings = [
    'settings = {"model.args.ch": 16, "model.args.emb_ch": 32, "train.batch_size": 16,',
    '    "model.eval_sampling_num_steps": 8}',
    'train_steps, evaluations, distill_from, distill_to, distill_updates = 40, 1, 8, 4, 5'
  ];
  if (parameters) parameters.source = [...[parameters.source].flat(), '\n', settings.join('\n')];
  await gateway.write(file, JSON.stringify(notebook));
  await open(page, gateway, file);
  const cells = await runAll(page, gateway, file);
  const training = cells.find(({ id }) => id === 'train');
  expect(training?.text).toMatch(/the training step was compiled 1 time\(s\)\n$/);
  expect(cells.find(({ id }) => id === 'export')?.text).not.toBe('');
});
