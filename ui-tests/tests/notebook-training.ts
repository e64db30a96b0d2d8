/** One of our own notebooks in the page: opened with smaller settings, run up to its training, and compared with its panel. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { expect, type Locator, type Page } from '@playwright/test';
import type { LabServer } from '../lab/lab-server.js';
import { readNotebookWithoutOutputs } from '../lab/copy-notebooks.js';
import { openNotebook, readCells } from './lab-page.js';
import { TPULabPanel } from './tpulab-panel.js';

/** Imports of a framework, and the first programs, on a machine that may be busy. */
const CELLS_DEADLINE_MS = 300_000;
/** Until a training has completed some steps: the first one compiles its program. */
const FIRST_STEPS_DEADLINE_MS = 360_000;

/** Writes a notebook of ours into the Lab's folder, with settings of the spec after its parameters cell. */
export async function writeWithSettings(
  lab: LabServer,
  file: string,
  settings: readonly string[]
): Promise<void> {
  const notebook = await readNotebookWithoutOutputs(file);
  const parameters = notebook.cells.find(({ metadata }) => metadata.tags?.includes('parameters'));
  if (!parameters) throw new Error(`${file} has no cell with the tag "parameters".`);
  parameters.source = [...[parameters.source].flat(), '\n', settings.join('\n')];
  await writeFile(join(lab.rootDir, file), JSON.stringify(notebook));
}

/** Runs all code cells above this one, and waits for them. */
export async function runAbove(page: IJupyterLabPageFixture, id: string): Promise<void> {
  await goToCell(page, id);
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-above'));
  const above = async (): Promise<Awaited<ReturnType<typeof readCells>>> => {
    const cells = await readCells(page);
    return cells.slice(
      0,
      cells.findIndex(cell => cell.id === id)
    );
  };
  const open = async (): Promise<string[]> =>
    (await above()).filter(({ executionCount }) => executionCount === null).map(cell => cell.id);
  await expect.poll(open, { timeout: CELLS_DEADLINE_MS }).toEqual([]);
  expect((await above()).flatMap(({ errors }) => errors)).toEqual([]);
}

/** A running training, in the panel and in the widget of its cell. */
export interface Training {
  readonly panel: TPULabPanel;
  /** The section "Run" of the panel. */
  readonly run: Locator;
  readonly controls: Locator;
}

/** Opens a notebook of ours beside the panel and starts its cell `training`; resolves when the run of that name has some steps. */
export async function startTraining(
  page: IJupyterLabPageFixture,
  lab: LabServer,
  file: string,
  settings: readonly string[],
  name: string
): Promise<Training> {
  await writeWithSettings(lab, file, settings);
  await openNotebook(page, file);
  const panel = new TPULabPanel(page);
  await panel.open();
  await runAbove(page, 'training');
  const run = await panel.section('Run');
  await startCell(page, 'training');
  const controls = trainingControls(page);
  // Until it has begun, both show the previous run: an evaluation in an earlier cell is a loop with steps too.
  await expect(controls.getByText(name, { exact: true })).toBeVisible({ timeout: FIRST_STEPS_DEADLINE_MS });
  await expect(controls).toContainText('running', { timeout: FIRST_STEPS_DEADLINE_MS });
  await expect(run.getByText(name, { exact: true }).and(run.locator('strong'))).toBeVisible();
  for (const shown of [controls, run]) {
    await expect.poll(() => stepOf(shown), { timeout: FIRST_STEPS_DEADLINE_MS }).toBeGreaterThan(5);
  }
  return { panel, run, controls };
}

/** Runs this cell and does not wait for it. */
export async function startCell(page: Page, id: string): Promise<void> {
  await goToCell(page, id);
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-cell'));
}

/** The output of a cell so far. */
export async function printedBy(page: Page, id: string): Promise<string> {
  return (await readCells(page)).find(cell => cell.id === id)?.text ?? '';
}

async function goToCell(page: Page, id: string): Promise<void> {
  await page.evaluate(wanted => {
    const { content } = window.jupyterapp.shell.currentWidget as NotebookPanel;
    const place = content.widgets.findIndex(({ model }) => model.id === wanted);
    if (place < 0) throw new Error(`The notebook has no cell ${wanted}.`);
    content.deselectAll();
    content.activeCellIndex = place;
  }, id);
}

/** The widget `tpulab.TrainingControls` below its cell. */
export function trainingControls(page: Page): Locator {
  const buttons = page.getByRole('group', { name: 'Run controls' });
  const notBegun = page.getByText('Waiting for the first step.');
  return page.locator('.jp-Notebook .jp-TPULabWidget').filter({ has: buttons.or(notBegun) });
}

/** The number of steps that the run section of the panel, or the widget, shows. */
export async function stepOf(shown: Locator): Promise<number> {
  const text = await shown.innerText();
  const [, digits] = /([\d,]+) (?:of [\d,]+ )?steps?\b(?!\/s)/.exec(text) ?? /step ([\d,]+)/.exec(text) ?? [];
  return Number((digits ?? '0').replaceAll(',', ''));
}

/** The step at which a paused run is held, as its log names it; the display lags behind: the last steps are reported after the pause. */
export async function pausedStep(panel: TPULabPanel, shown: Locator): Promise<number> {
  const pauses = (await panel.requests()).getByRole('listitem').filter({ hasText: 'pause · applied' });
  const held = Number((await pauses.first().locator('.jp-TPULabLog-step').innerText()).replaceAll(',', ''));
  await expect.poll(() => stepOf(shown)).toBe(held);
  return held;
}

/** Sets a hyperparameter by typing into its field. */
export async function setHyperparameter(shown: Locator, name: string, value: string): Promise<void> {
  const field = shown.getByRole('textbox', { name: `${name}, exactly` });
  await field.fill(value);
  await field.press('Enter');
}

/** A point of a chart: the number of its step, and its value in four figures. */
interface ChartPoint {
  readonly step: number;
  readonly value: number;
}

/** The first points of a chart and its last one, read with the keyboard. */
export async function readChart(
  chart: Locator,
  first: number
): Promise<{ first: ChartPoint[]; last: ChartPoint }> {
  const at = async (key: string, row: number): Promise<ChartPoint> => {
    await chart.press(key);
    await expect(chart).toHaveAttribute('aria-valuenow', String(row));
    const text = (await chart.getAttribute('aria-valuetext')) ?? '';
    const [, step, value] = /^([\d,]+) · .* (\S+)$/.exec(text) ?? [];
    if (step === undefined || value === undefined) throw new Error(`The chart says "${text}".`);
    return { step: Number(step.replaceAll(',', '')), value: Number(value) };
  };
  const points: ChartPoint[] = [];
  for (let row = 0; row < first; row += 1) points.push(await at(row === 0 ? 'Home' : 'ArrowRight', row));
  return { first: points, last: await at('End', Number(await chart.getAttribute('aria-valuemax'))) };
}
