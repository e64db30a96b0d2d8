/**
 * Makes the images of panel, dashboard and session page: `TPULAB_SCREENSHOTS=1 npx playwright test -c ui-tests/playwright.config.ts panels`.
 * They show a shipped notebook unchanged, on this machine's CPU; the devices of `devices-256` are simulated, and labelled so in the image.
 */
import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import type { Locator } from '@playwright/test';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { CHECKOUT, IMAGES } from '../lab/paths.js';
import { expect, type LabFixtures, test as labTest } from './fixtures.js';
import { openNotebook } from './lab-page.js';
import { notebookText } from './notebook-file.js';
import { open, test as pageTest } from './session-steps.js';
import { markSimulated, requireFonts, useFonts } from './screenshot-page.js';
import { TPULabPanel } from './tpulab-panel.js';

const THEMES = {
  light: 'JupyterLab Light',
  dark: 'JupyterLab Dark',
  contrast: 'JupyterLab Dark High Contrast'
} as const;

/** Shipped, with hyperparameters, checkpoints and samples; JAX. */
const NOTEBOOK = '05-ddpm.ipynb';
const LONG = { timeout: 900_000 };

const shipped = (): Promise<string> => readFile(join(CHECKOUT, 'notebooks', NOTEBOOK), 'utf8');

/** Images of a part of the page in each of these themes. */
async function picture(
  page: IJupyterLabPageFixture,
  part: Locator,
  name: string,
  themes: readonly (keyof typeof THEMES)[]
): Promise<void> {
  for (const theme of themes) {
    await page.theme.setTheme(THEMES[theme]);
    await useFonts(page);
    await page.mouse.move(0, 0);
    // From its top, even after a click on a button further down.
    await part.evaluate(element => element.scrollTo({ top: 0 }));
    // After two drawings everything has the colours of the theme.
    await page.evaluate(() => new Promise(resolve => setTimeout(resolve, 1_500)));
    await part.screenshot({ path: join(IMAGES, `${name}-${theme}.png`), animations: 'disabled' });
  }
}

/** The dashboard over the whole main area, where its sections fit side by side. */
async function openDashboard(page: IJupyterLabPageFixture): Promise<Locator> {
  await page.sidebar.close('right');
  await page.evaluate(async () => {
    const { commands } = window.jupyterapp;
    await commands.execute('tpulab:open-dashboard');
    await commands.execute('application:set-mode', { mode: 'single-document' });
  });
  const dashboard = page.getByRole('region', { name: 'TPULab dashboard' });
  await expect(dashboard).toBeVisible();
  return dashboard;
}

labTest.describe('JupyterLab', () => {
  labTest.use({ viewport: { width: 1440, height: 1250 }, deviceScaleFactor: 1.5 });
  labTest.setTimeout(1_800_000);

  labTest('a shipped training with the panel and the dashboard, in all themes', async ({ page }) => {
    requireFonts();
    await mkdir(IMAGES, { recursive: true });
    // The Lab of a test starts with copies of the shipped notebooks.
    await openNotebook(page, NOTEBOOK);
    await page.sidebar.close('left');
    const panel = new TPULabPanel(page);
    await panel.open();
    await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
    const run = await panel.section('Run');
    // The first compilations are older than the shown steps.
    await expect(run).toContainText(/[1-9]\d\d of [\d,]+ steps/, LONG);
    await run.getByRole('button', { name: 'Checkpoint' }).click();
    await panel.widen(435);
    await picture(page, panel.root, 'panels', ['light', 'dark', 'contrast']);
    await page.setViewportSize({ width: 1440, height: 700 });
    const dashboard = await openDashboard(page);
    await dashboard.getByText('History and topology').click();
    await picture(page, dashboard, 'dashboard', ['light', 'dark', 'contrast']);
  });
});

/** 256 devices as a runtime's metric server reports them; no machine here has them, so the image is labelled "simulated". */
const manyDevices = labTest.extend<object, Pick<LabFixtures, 'labOptions'>>({
  labOptions: [
    async ({}, use) => {
      const server = spawn(process.execPath, [
        join(CHECKOUT, 'bench', 'sampler', 'metric-server.mjs'),
        '256'
      ]);
      try {
        const [port] = (await once(createInterface(server.stdout), 'line')) as [string];
        await use({ galata: true, env: { TPU_RUNTIME_METRICS_PORTS: port, TPU_SKIP_MDS_QUERY: '1' } });
      } finally {
        server.kill();
      }
    },
    { scope: 'worker' }
  ]
});

manyDevices.describe('a simulated slice', () => {
  manyDevices.use({ viewport: { width: 1440, height: 1900 }, deviceScaleFactor: 1.5 });

  manyDevices('of 256 devices in the panel', async ({ lab, page }) => {
    requireFonts();
    await mkdir(IMAGES, { recursive: true });
    await writeFile(join(lab.rootDir, 'slice.ipynb'), notebookText());
    await openNotebook(page, 'slice.ipynb');
    await page.sidebar.close('left');
    const panel = new TPULabPanel(page);
    await panel.open();
    const devices = await panel.section('Devices');
    await expect(devices).toContainText('256 devices busy');
    await devices.getByText('History and topology').click();
    await devices.getByRole('button', { name: 'Host memory, network and disk' }).click();
    const grid = devices.getByRole('slider', { name: 'Devices, one cell each' });
    await grid.focus();
    for (let at = 0; at < 5; at += 1) await grid.press('ArrowDown');
    await markSimulated(devices, 'Simulated devices');
    await picture(page, devices, 'devices-256', ['light', 'dark']);
  });
});

pageTest.describe('the session page', () => {
  pageTest.use({ viewport: { width: 1440, height: 900 } });
  pageTest.setTimeout(1_800_000);

  pageTest(
    'with a shipped training: light, the dialog that shares it, and dark with the panel',
    async ({ page, gateway }) => {
      requireFonts();
      await mkdir(IMAGES, { recursive: true });
      await gateway.write(NOTEBOOK, await shipped());
      await open(page, gateway, NOTEBOOK);
      await useFonts(page);
      await page.getByRole('button', { name: 'Run all' }).click();
      await expect(page.locator('.tpl-StepBar')).toContainText(/[1-9]\d\d of /, LONG);
      await page
        .getByRole('heading', { name: /^4\. Training/ })
        .evaluate(element => element.scrollIntoView({ block: 'start' }));
      await page.mouse.move(0, 0);
      await page.screenshot({ path: join(IMAGES, 'session-light.png'), animations: 'disabled' });
      await page.getByRole('button', { name: 'More', exact: true }).click();
      await page.getByRole('menuitem', { name: 'Share a read-only link…' }).click();
      const share = page.getByRole('dialog', { name: /^Share a read-only link to/ });
      await share.getByRole('button', { name: 'Create link' }).click();
      await expect(share.getByLabel('Link', { exact: true })).toBeVisible();
      await page.screenshot({ path: join(IMAGES, 'session-share.png'), animations: 'disabled' });
      await share.getByRole('button', { name: 'Close' }).click();
      await page.getByRole('button', { name: 'Open panel' }).click();
      await page.getByRole('button', { name: 'More', exact: true }).click();
      await page.getByRole('menuitemradio', { name: 'Dark theme' }).click();
      await page.evaluate(() => new Promise(resolve => setTimeout(resolve, 2_000)));
      await page.screenshot({ path: join(IMAGES, 'session-dark.png'), animations: 'disabled' });
    }
  );
});
