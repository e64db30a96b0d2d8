/** A reopened notebook has its cells in the kernel's present state, whatever they were doing meanwhile. */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import type { Page } from '@playwright/test';
import type { LabServer } from '../lab/lab-server.js';
import { waitUntil } from '../lab/processes.js';
import { expect, test } from './fixtures.js';
import { currentKernel, openNotebook, readCells, setSource } from './lab-page.js';
import { type CellOutputs, notebookText } from './notebook-file.js';

/** Cells wait at gates, so that a test controls their progress, however fast the machine is. */
const GATE = `import pathlib, time
def gate(name):
    while not pathlib.Path("ROOT", name).exists():
        time.sleep(0.02)
def passed(name):
    pathlib.Path("ROOT", name).touch()
`;

class Story {
  constructor(
    readonly lab: LabServer,
    readonly page: IJupyterLabPageFixture,
    readonly name: string
  ) {}

  get path(): string {
    return `${this.name}.ipynb`;
  }

  /** Writes the notebook (the first cell defines the gates), opens it and runs its cells without waiting for them. */
  async begin(sources: readonly string[], nbformatMinor = 5): Promise<void> {
    const all = [GATE.replaceAll('ROOT', this.lab.rootDir), ...sources];
    const named = all.map(source => source.replaceAll('GATE', `${this.name}-`));
    const text = notebookText(named, 'tpulab-jax', nbformatMinor);
    await writeFile(join(this.lab.rootDir, this.path), text);
    await openNotebook(this.page, this.path);
    await this.page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
  }

  open(gate: string): Promise<void> {
    return writeFile(join(this.lab.rootDir, `${this.name}-${gate}`), '');
  }

  /** Whether a cell has reported that it reached this point. */
  has(mark: string): boolean {
    return existsSync(join(this.lab.rootDir, `${this.name}-${mark}`));
  }

  async cell(index: number, page: Page = this.page): Promise<CellOutputs> {
    const cell = (await readCells(page))[index];
    if (cell === undefined) throw new Error(`The notebook has no cell ${index}.`);
    return cell;
  }

  async expectText(index: number, text: string, page: Page = this.page): Promise<void> {
    await expect.poll(async () => (await this.cell(index, page)).text).toBe(text);
  }

  async save(): Promise<void> {
    await this.page.evaluate(() =>
      window.jupyterapp.commands.execute('docmanager:save').then(() => undefined)
    );
    await expect.poll(() => isDirty(this.page)).toBe(false);
  }

  async reload(): Promise<void> {
    await openNotebook(this.page, this.path);
  }
}

function prompts(page: Page): Promise<string[]> {
  return page.locator('.jp-Notebook .jp-CodeCell .jp-InputPrompt').allInnerTexts();
}

function isDirty(page: Page): Promise<boolean> {
  return page.evaluate(() => (window.jupyterapp.shell.currentWidget as NotebookPanel).context.model.dirty);
}

/** Sends the request to the bridge directly, because no page is open. */
async function kernelsAreIdle(lab: LabServer): Promise<boolean> {
  const { url } = await lab.gateway();
  const token = (await readFile(join(lab.stateDir, 'token'), 'utf8')).trim();
  const response = await fetch(new URL('api/kernels', url), { headers: { Authorization: `token ${token}` } });
  const kernels = (await response.json()) as { execution_state: string }[];
  return kernels.every(kernel => kernel.execution_state === 'idle');
}

const COUNT = `for n in range(40):
    print("line", n, flush=True)
    if n == 19:
        gate("GATEhalf")
print("done")`;
const lines = (end: number): string => Array.from({ length: end }, (_, n) => `line ${n}\n`).join('');

test('a cell that runs during a reload of the page continues, with no text missing or doubled', async ({
  lab,
  page
}) => {
  const story = new Story(lab, page, 'running');
  await story.begin([COUNT, 'print("after")']);
  await story.expectText(1, lines(20));
  await story.save();
  await story.reload();
  await story.expectText(1, lines(20));
  await expect.poll(() => prompts(page)).toEqual(['[1]:', '[*]:', '[*]:']);
  // The file equals the shown content: nothing to save, as soon as the last output is in its cell.
  await expect.poll(() => isDirty(page)).toBe(false);

  await story.open('half');
  await story.expectText(1, `${lines(40)}done\n`);
  await story.expectText(2, 'after\n');
  await expect.poll(() => prompts(page)).toEqual(['[1]:', '[2]:', '[3]:']);
  expect(await isDirty(page)).toBe(true);
});

test('a notebook before nbformat 4.5, whose file has no ids of cells, finds them by their code', async ({
  lab,
  page
}) => {
  const story = new Story(lab, page, 'old-format');
  await story.begin([COUNT, 'print("after")'], 4);
  await story.expectText(1, lines(20));
  await story.save();
  await story.reload();
  await story.expectText(1, lines(20));
  await story.open('half');
  await story.expectText(1, `${lines(40)}done\n`);
  await story.expectText(2, 'after\n');
  await expect.poll(() => prompts(page)).toEqual(['[1]:', '[2]:', '[3]:']);
  await expect(page.getByText('could not be placed')).toHaveCount(0);
});

test('cells that finished while no page was open are filled: results, tracebacks, displays, cleared outputs', async ({
  lab,
  page
}) => {
  const story = new Story(lab, page, 'away');
  await story.begin([
    'gate("GATEgo")\nprint("made while away")\n6 * 7',
    `from IPython.display import HTML, clear_output, display
handle = display(HTML("<b>first</b>"), display_id=True)
handle.update(HTML("<b>second</b>"))
print("gone"); clear_output(wait=True); print("kept")`,
    'passed("GATElast")\nimport matplotlib_is_not_here'
  ]);
  await expect.poll(() => prompts(page)).toEqual(['[1]:', '[*]:', '[*]:', '[*]:']);
  await story.save();
  await page.goto('?reset');
  await story.open('go');
  // Between two cells a kernel is idle too.
  await waitUntil('The last cell', () => Promise.resolve(story.has('last') || null));
  await expect.poll(() => kernelsAreIdle(lab)).toBe(true);

  await story.reload();
  await story.expectText(1, 'made while away\n');
  await expect.poll(async () => (await story.cell(1)).mimeTypes).toContain('text/plain');
  await story.expectText(2, 'kept\n');
  await expect.poll(async () => (await story.cell(3)).errors).toEqual(['ModuleNotFoundError']);
  await expect.poll(() => prompts(page)).toEqual(['[1]:', '[2]:', '[3]:', '[4]:']);
  await story.save();

  // All of it is in the file now, so a further load changes nothing.
  await story.reload();
  await expect(page.locator('#jp-main-statusbar')).toContainText('live');
  await story.expectText(1, 'made while away\n');
  expect(await isDirty(page)).toBe(false);
});

test('a question of the kernel is shown again, and the answer reaches it', async ({ lab, page }) => {
  const story = new Story(lab, page, 'question');
  await story.begin([
    'name = input("Your name? ")\nprint("Hello", name)\nagain = input("Sure? ")\nprint(again)'
  ]);
  await expect(page.locator('.jp-Stdin-input')).toBeVisible();
  await story.save();
  await story.reload();
  await expect(page.locator('.jp-Stdin-prompt')).toHaveText('Your name? ');
  await page.locator('.jp-Stdin-input').fill('Ada');
  await page.locator('.jp-Stdin-input').press('Enter');
  await expect.poll(async () => (await story.cell(1)).text).toContain('Hello Ada\n');
  // The next question appears when it is asked; JupyterLab fades the field of the first one beside it.
  await expect(page.locator('.jp-Stdin-prompt').last()).toHaveText('Sure? ');
  await page.locator('.jp-Stdin-input').last().fill('yes');
  await page.locator('.jp-Stdin-input').last().press('Enter');
  await expect.poll(async () => (await story.cell(1)).text).toMatch(/Sure\? +yes\nyes\n$/);
  await expect.poll(() => prompts(page)).toEqual(['[1]:', '[2]:']);
});

/**
 * A bar, a live slider, a picture as bytes and an Output widget, in one cell that is still running when the page is opened again.
 */
const WIDGETS = `import base64, ipywidgets, tpulab
bar = ipywidgets.IntProgress(value=0, max=9)
slider = tpulab.live(ipywidgets.IntSlider(value=3, max=10))
dot = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg==")
picture = ipywidgets.Image(value=dot, format="png")
out = ipywidgets.Output()
display(bar, slider.widget, picture, out)
bar.value = 4
with out:
    print("before")
    gate("GATEreloaded")
    print("after")
bar.value = 5
while slider.value == 3:
    time.sleep(0.02)
print("slider", slider.value)
gate("GATEend")`;

test('the widgets of a running cell are restored after a reload, with their captured outputs, and respond', async ({
  lab,
  page
}) => {
  const story = new Story(lab, page, 'widget');
  const cell = page.locator('.jp-Notebook .jp-CodeCell').nth(1);
  const shows = async (bar: string, captured: string): Promise<void> => {
    await expect(cell.locator('.widget-output')).toHaveText(captured);
    await expect(cell.locator('.progress-bar')).toHaveAttribute('style', new RegExp(`width: ${bar}`));
    await expect(cell.getByRole('slider')).toHaveAttribute('aria-valuetext', '3');
    await expect
      .poll(() => cell.locator('img').evaluate((image: HTMLImageElement) => image.naturalWidth))
      .toBe(1);
  };
  await story.begin([WIDGETS]);
  await shows('44', 'before');
  await story.save();
  await story.reload();
  await shows('44', 'before');
  expect((await prompts(page))[1]).toBe('[*]:');
  await story.open('reloaded');
  await shows('55', 'before after');
  await cell.getByRole('slider').press('ArrowRight');
  // Only text printed outside the Output widget goes to the cell.
  await story.expectText(1, 'slider 4\n');
  await story.open('end');
  await expect.poll(() => prompts(page)).toEqual(['[1]:', '[2]:']);
  await expect(cell.locator('.widget-output')).toHaveText('before after');
});

test('two pages show the same running cell', async ({ lab, page, context }) => {
  const story = new Story(lab, page, 'two');
  await story.begin([COUNT]);
  await story.expectText(1, lines(20));
  await story.save();
  const other = await context.newPage();
  await other.goto(`${lab.url}/lab/workspaces/other/tree/${story.path}?reset`);
  await expect(other.locator('.jp-Notebook .jp-CodeCell')).toHaveCount(2);
  // Its cells are drawn before the notebook is the current widget.
  await expect.poll(async () => (await currentKernel(other))?.name).toBeTruthy();
  await story.expectText(1, lines(20), other);
  await story.open('half');
  for (const each of [page, other]) {
    await story.expectText(1, `${lines(40)}done\n`, each);
    await expect.poll(() => prompts(each)).toEqual(['[1]:', '[2]:']);
  }
  await other.close();
});

test('a display is updated by a cell that is run after the reload', async ({ lab, page }) => {
  const story = new Story(lab, page, 'display');
  await story.begin([
    'from IPython.display import HTML, display\nhandle = display(HTML("<i>old</i>"), display_id="shown")',
    'pass'
  ]);
  await expect.poll(() => prompts(page)).toEqual(['[1]:', '[2]:', '[3]:']);
  await story.save();
  await story.reload();
  await expect(page.locator('.jp-OutputArea-output i')).toHaveText('old');
  await expect(page.locator('#jp-main-statusbar')).toContainText('live');
  await expect.poll(() => isDirty(page)).toBe(false);
  await setSource(page, 2, 'handle.update(HTML("<i>new</i>"))');
  await page.notebook.runCell(2, true);
  await expect(page.locator('.jp-OutputArea-output i')).toHaveText('new');
});

test('a cell that was edited since keeps its outputs, and the new output can be viewed', async ({
  lab,
  page
}) => {
  const story = new Story(lab, page, 'edited');
  await story.begin([COUNT]);
  await story.expectText(1, lines(20));
  await setSource(page, 1, 'print("something else")');
  await story.save();
  await story.open('half');
  await story.reload();
  await expect(page.getByText('could not be placed: edited, deleted, or run in a console')).toBeVisible();
  expect(await isDirty(page)).toBe(false);
  await page.getByRole('button', { name: 'Show the output' }).click();
  await expect(page.locator('.jp-TPULabUnplaced')).toContainText('The cell was edited since');
  await expect(page.locator('.jp-TPULabUnplaced .jp-OutputArea')).toContainText('line 19');
});
