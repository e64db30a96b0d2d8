/** Operations on Lab's own objects in the page, where no visible element is equivalent. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import { expect, type Page } from '@playwright/test';
import { type CellOutputs, codeCells, type NotebookJson } from './notebook-file.js';

declare global {
  interface Window {
    jupyterapp: JupyterFrontEnd;
  }
}

/** Code cells of the current notebook, from its model: cells that are not in view have no elements. */
export async function readCells(page: Page): Promise<CellOutputs[]> {
  const notebook = await page.evaluate(() => {
    const panel = window.jupyterapp.shell.currentWidget as NotebookPanel;
    return panel.content.model?.toJSON();
  });
  return codeCells(notebook as unknown as NotebookJson);
}

/** Whether the current notebook has unsaved changes, and whether its kernel has written its details into it. */
export function documentState(page: Page): Promise<{ hasKernelDetails: boolean; isDirty: boolean }> {
  return page.evaluate(() => {
    const { model } = window.jupyterapp.shell.currentWidget as NotebookPanel;
    const info = model?.getMetadata('language_info') as { version?: string } | undefined;
    return { hasKernelDetails: info?.version !== undefined, isDirty: model?.dirty === true };
  });
}

/** Sets the text of a cell of the current notebook. Galata types it, and gives a busy page only 10 s to settle. */
export async function setSource(page: Page, index: number, source: string): Promise<void> {
  await page.evaluate(
    ([at, text]) => {
      const { content } = window.jupyterapp.shell.currentWidget as NotebookPanel;
      const cell = content.widgets[at];
      if (!cell) throw new Error(`The notebook has no cell ${at}.`);
      cell.model.sharedModel.setSource(text);
    },
    [index, source] as const
  );
}

/** Runs code in the kernel of the current notebook without a cell; returns its output. */
export function runInKernel(page: Page, code: string): Promise<string> {
  return page.evaluate(async source => {
    const panel = window.jupyterapp.shell.currentWidget as NotebookPanel;
    const kernel = panel.sessionContext.session?.kernel;
    if (!kernel) throw new Error('The notebook has no kernel.');
    const future = kernel.requestExecute({ code: source, store_history: false });
    let printed = '';
    future.onIOPub = message => {
      if (message.header.msg_type === 'stream') printed += (message.content as { text: string }).text;
    };
    const reply = await future.done;
    if (reply.content.status !== 'ok')
      throw new Error(`The kernel answered ${JSON.stringify(reply.content)}`);
    return printed;
  }, code);
}

/** The kernel of the current notebook; null while it has no kernel, or the page has no Lab yet. */
export function currentKernel(
  page: Page
): Promise<{ id: string; name: string; status: string; baseUrl: string } | null> {
  return page.evaluate(() => {
    const app = window.jupyterapp as JupyterFrontEnd | undefined;
    const widget = app?.shell.currentWidget as Partial<NotebookPanel> | null | undefined;
    const kernel = widget?.sessionContext?.session?.kernel;
    if (!kernel) return null;
    const { id, name, status, serverSettings } = kernel;
    return { id, name, status, baseUrl: serverSettings.baseUrl };
  });
}

/** Ids of our plugins that Lab has activated. */
export function activePlugins(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const app = window.jupyterapp;
    return app.listPlugins().filter(id => id.startsWith('@tpulab/') && app.isPluginActivated(id));
  });
}

/** Opens Lab on a notebook by its address, without previously opened documents, and waits for its kernel. */
export async function openNotebook(page: IJupyterLabPageFixture, path: string): Promise<void> {
  await page.goto(`tree/${path}?reset`);
  const name = path.split('/').at(-1)!;
  await expect(page.getByRole('tab', { name, selected: true })).toBeVisible();
  await expect.poll(async () => (await currentKernel(page))?.name).toBeTruthy();
}

const THEMES = {
  light: 'JupyterLab Light',
  dark: 'JupyterLab Dark',
  'high contrast': 'JupyterLab Dark High Contrast'
} as const;

/** Resolves when the page is drawn with the theme: Galata's helper returns while the theme's stylesheet may still be loading. */
export async function setTheme(page: IJupyterLabPageFixture, theme: keyof typeof THEMES): Promise<void> {
  await page.theme.setTheme(THEMES[theme]);
  await page.waitForFunction(name => {
    const sheets = [...document.querySelectorAll<HTMLLinkElement>('link[rel="stylesheet"]')];
    return document.body.dataset['jpThemeName'] === name && sheets.every(({ sheet }) => sheet !== null);
  }, THEMES[theme]);
}
