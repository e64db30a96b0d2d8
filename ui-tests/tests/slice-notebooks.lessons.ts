/**
 * Notebooks 00 and 05, unchanged but for a small network, on a kernel of two hosts. They compile for minutes on a busy machine, and
 * are run on demand: `TPULAB_LESSON_PAGES=1 npx playwright test -c ui-tests/playwright.config.ts slice-notebooks`.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LabServer } from '../lab/lab-server.js';
import { LESSON } from '../lab/paths.js';
import { openNotebook, readCells } from './lab-page.js';
import { expectLesson, runLesson } from './lesson-outputs.js';
import { printedBy, runAbove, startCell, writeWithSettings } from './notebook-training.js';
import { expect, HOSTS, SLICE_KERNEL, test } from './slice-kernel.js';
import { TPULabPanel } from './tpulab-panel.js';

const DDPM = '05-ddpm.ipynb';
const STEPS = 24;
/** A network of a quarter of the width, on all devices; each host has its own batch. */
const SETTINGS = [
  'settings = {"model.args.ch": 16, "model.args.emb_ch": 32, "train.batch_size": 8,',
  '    "model.eval_sampling_num_steps": 8}',
  `train_steps, evaluations, devices = ${STEPS}, 1, 0`
];

async function chooseSlice(lab: LabServer, file: string): Promise<void> {
  const at = join(lab.rootDir, file);
  const notebook = JSON.parse(await readFile(at, 'utf8')) as { metadata: object };
  const kernelspec = { name: SLICE_KERNEL, display_name: SLICE_KERNEL };
  await writeFile(at, JSON.stringify({ ...notebook, metadata: { kernelspec } }));
}

test('notebook 00 runs on all hosts', async ({ lab, page }) => {
  await chooseSlice(lab, LESSON);
  await openNotebook(page, LESSON);
  await runLesson(page);
  expectLesson(await readCells(page));
});

test('notebook 05 trains on the devices of all hosts, and the panel shows the steps of each', async ({
  lab,
  page
}) => {
  test.setTimeout(900_000);
  await writeWithSettings(lab, DDPM, SETTINGS);
  await chooseSlice(lab, DDPM);
  await openNotebook(page, DDPM);
  const panel = new TPULabPanel(page);
  await panel.open();
  await runAbove(page, 'train');
  expect(await printedBy(page, 'imports')).toContain('on 8 of 8 devices');
  await startCell(page, 'train');
  await expect
    .poll(() => printedBy(page, 'train'), { timeout: 600_000 })
    .toMatch(/the training step was compiled 1 time\(s\)\n$/);
  const run = await panel.section('Run');
  await expect(run).toContainText(`${STEPS} of ${STEPS} steps`);
  const steps = await panel.section('Where the time goes');
  for (let host = 0; host < HOSTS; host += 1) await expect(steps).toContainText(`host ${host}`);
  expect((await readCells(page)).flatMap(({ errors }) => errors)).toEqual([]);
});
