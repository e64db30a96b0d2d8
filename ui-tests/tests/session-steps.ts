/** Steps shared by the session page's specs: a gateway for all tests of a worker, and opening a notebook in the page. */
import { type Browser, expect, type Locator, type Page, test as plain } from '@playwright/test';
import { SessionGateway } from '../lab/session-gateway.js';
import { type CellOutputs, codeCells, type NotebookJson } from './notebook-file.js';

export { expect } from '@playwright/test';

export const test = plain.extend<object, { gateway: SessionGateway }>({
  gateway: [
    async ({}, use) => {
      const gateway = await SessionGateway.start();
      await use(gateway);
      await gateway.stop();
    },
    { scope: 'worker', timeout: 300_000 }
  ]
});

export const cell = (page: Page, at: number): Locator => page.locator('.jp-CodeCell').nth(at);

/** Meanwhile the page does not check its file, so that its unsaved changes conflict with the changes of others. */
export async function unwatched(page: Page, work: () => Promise<void>): Promise<void> {
  await page.evaluate(() =>
    Object.defineProperty(document, 'hidden', { get: () => true, configurable: true })
  );
  await work();
  await page.evaluate(() => Reflect.deleteProperty(document, 'hidden'));
}

export async function run(page: Page, at: number): Promise<void> {
  await cell(page, at).locator('.cm-content').click();
  await page.keyboard.press('Control+Enter');
}

/** Opens a notebook and waits until its kernel is connected. */
export async function open(page: Page, gateway: SessionGateway, notebook: string): Promise<void> {
  await page.goto(gateway.link(notebook));
  await expect(page.locator('.jp-CodeCell .cm-content').first()).toBeVisible();
  await expect(page.getByRole('button', { name: /^Runtime: .* connected, / })).toBeVisible();
}

/** Opens the link as in another browser. */
export async function openElsewhere(browser: Browser, link: string): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  await page.goto(link);
  return page;
}

/** Imports, compiling and training, on a machine that may be busy. */
const NOTEBOOK_DEADLINE_MS = 420_000;

/** Runs a notebook from top to bottom, with the button; resolves with the saved file's content when every cell was run. */
export async function runAll(page: Page, gateway: SessionGateway, notebook: string): Promise<CellOutputs[]> {
  await page.getByRole('button', { name: 'Run all' }).click();
  let cells: CellOutputs[] = [];
  const notRun = async (): Promise<string[]> => {
    cells = codeCells(JSON.parse(await gateway.read(notebook)) as NotebookJson);
    // Cells after an error are not run, regardless of the timeout.
    expect(cells.flatMap(({ errors }) => errors)).toEqual([]);
    return cells.filter(({ executionCount }) => executionCount === null).map(({ id }) => id);
  };
  await expect.poll(notRun, { timeout: NOTEBOOK_DEADLINE_MS, intervals: [1_000] }).toEqual([]);
  await expect(page.locator('.tpl-TopBar-saved.jp-mod-saved')).toBeVisible();
  await notRun();
  return cells;
}

/** Chooses the VM in the dialog "Connect to a TPU…", up to ssh's question about an unknown host. */
export async function chooseVm(dialog: Locator): Promise<void> {
  await dialog.getByRole('option', { name: /^vm/ }).click();
  await dialog.getByRole('button', { name: 'Connect to vm' }).click();
}

/** Messages in a browser's console about refused or failed requests. */
export function complaintsOf(page: Page): string[] {
  const complaints: string[] = [];
  page.on('pageerror', error => complaints.push(error.message));
  page.on('console', message => {
    // The networks of stand-in VMs change on this machine, and the page repeats requests that a browser drops then.
    const isRetried = message.text().includes('ERR_NETWORK_CHANGED');
    if (message.type() === 'error' && !isRetried)
      complaints.push(`${message.text()} ${message.location().url}`);
  });
  return complaints;
}

/** Runs a command by its name, in the palette. */
export async function command(page: Page, name: string): Promise<void> {
  await page.keyboard.press('Control+k');
  await page.keyboard.type(name);
  await expect(page.getByRole('option', { name }).first()).toBeVisible();
  await page.keyboard.press('Enter');
}
