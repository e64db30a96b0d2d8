/**
 * Makes the images of the panels: `TPULAB_SCREENSHOTS=1 npx playwright test -c ui-tests/playwright.config.ts panels`. A stand-in for
 * a runtime's metric server tells of 8 devices, or of 256; the training and its controls are real.
 */
import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import type { Locator } from '@playwright/test';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { CHECKOUT, IMAGES } from '../lab/paths.js';
import type { LabServer } from '../lab/lab-server.js';
import { expect, type LabFixtures, test as labTest } from './fixtures.js';
import { openNotebook } from './lab-page.js';
import { notebookText } from './notebook-file.js';
import { TPULabPanel } from './tpulab-panel.js';

const THEMES = {
  light: 'JupyterLab Light',
  dark: 'JupyterLab Dark',
  contrast: 'JupyterLab Dark High Contrast'
} as const;

const TRAIN = `import time, jax, jax.numpy as jnp, tpulab
@jax.jit
def train_step(w, rate):
    for _ in range(20):
        w = w @ w.T / jnp.linalg.norm(w)
    return w - rate * w, jnp.mean(w ** 2)
run = tpulab.run("dia-ft-3", {"batch": 32, "seed": 7}, total=20_000, hyperparameters={
    "learning_rate": tpulab.hyper(3e-4, min=1e-6, max=1e-2, scale="log"),
    "text_dropout": tpulab.hyper(0.15, min=0.0, max=0.5),
    "augment": True})
@run.on_checkpoint
def save(step):
    time.sleep(0.2)
@run.on_sample
def sample(step):
    time.sleep(0.1)
w = jax.random.normal(jax.random.key(0), (192, 192))
for turn in run.steps(range(20_000)):
    if turn == 40: w = w[:160, :160]
    w, loss = train_step(w, run.hyper.learning_rate)
    run.log(loss=2.3 + 4 * 0.99 ** turn + 0.2 * float(jnp.sin(turn / 3.0)), accuracy=1 - 0.99 ** turn)
    time.sleep(0.004 if turn % 9 else 0.012)`;

/** Stands for the parts of `/` where Linux shows chips, and for the Python that has libtpu's SDK, which says how much of a TensorCore is used. */
async function addChips(root: string, chips: number): Promise<void> {
  for (let chip = 0; chip < chips; chip += 1) {
    const at = join(root, `sys/bus/pci/devices/0000:00:${(chip + 4).toString(16).padStart(2, '0')}.0`);
    await mkdir(at, { recursive: true });
    await writeFile(join(at, 'vendor'), '0x1ae0\n');
    await writeFile(join(at, 'device'), '0x0063\n');
    await symlink(`../../../../kernel/iommu_groups/${chip}`, join(at, 'iommu_group'));
    await mkdir(join(root, 'dev/vfio'), { recursive: true });
    await writeFile(join(root, `dev/vfio/${chip}`), '');
  }
  const used = Array.from({ length: chips }, (_, chip) => String(58 + ((chip * 5) % 13)));
  const told = JSON.stringify({ tensorcore_util: used, ici_link_health: [], tpu_throttle_score: [] });
  const lines = ['#!/bin/sh', 'while :; do', `  echo '${told}'`, '  sleep 1', 'done', ''];
  await writeFile(join(root, 'sdk'), lines.join('\n'), { mode: 0o755 });
}

/**
 * Lab on a machine with so many devices. The gateway gets the runtime's port by Lab's environment, so the runtime is there before
 * Lab is, and for this Lab only.
 */
function testWith(devices: number): typeof labTest {
  const test = labTest.extend<object, Pick<LabFixtures, 'labOptions'>>({
    labOptions: [
      async ({}, use) => {
        const script = join(CHECKOUT, 'bench', 'sampler', 'metric-server.mjs');
        const runtime = spawn(process.execPath, [script, String(devices)]);
        const root = await mkdtemp(join(tmpdir(), 'tpulab-pictures-'));
        // Of a larger slice one machine has a part only; its picture is of what the runtime tells.
        await addChips(root, devices <= 8 ? devices : 0);
        try {
          const [port] = (await once(createInterface(runtime.stdout), 'line')) as [string];
          const env = {
            TPU_RUNTIME_METRICS_PORTS: port,
            TPU_SKIP_MDS_QUERY: '1',
            TPULAB_SDK_PYTHON: join(root, 'sdk')
          };
          const bridge = join(CHECKOUT, 'ui-tests', 'lab', 'chips-bridge.mjs');
          await use({ galata: true, env, bridgeCommand: [process.execPath, bridge, root] });
        } finally {
          runtime.kill();
          await rm(root, { recursive: true });
        }
      },
      { scope: 'worker' }
    ]
  });
  test.use({ viewport: { width: 1440, height: 1000 }, deviceScaleFactor: 1.5 });
  return test;
}

/** A training in a cell, the panel beside it, and some of what can be asked of it. */
async function train(page: IJupyterLabPageFixture, lab: LabServer): Promise<TPULabPanel> {
  await mkdir(IMAGES, { recursive: true });
  await writeFile(join(lab.rootDir, '06-dia.ipynb'), notebookText([TRAIN]));
  await openNotebook(page, '06-dia.ipynb');
  await page.sidebar.close('left');
  await page.notebook.selectCells(0);
  await page.keyboard.press('Control+Enter');
  const panel = new TPULabPanel(page);
  await panel.open();
  const run = await panel.section('Run');
  await expect(run).toContainText(/[1-9]\d\d of 20,000 steps/, { timeout: 180_000 });
  const field = (await panel.section('Hyperparameters')).getByRole('textbox', {
    name: 'learning_rate, exactly'
  });
  await field.fill('0.0001');
  await field.press('Enter');
  await run.getByRole('button', { name: 'Checkpoint' }).click();
  await expect(await panel.requests()).toContainText('checkpoint');
  await panel.root.getByRole('button', { name: /^Log/, expanded: true }).click();
  return panel;
}

/** Pictures of a part of the page in each of these themes. */
async function picture(
  page: IJupyterLabPageFixture,
  part: Locator,
  name: string,
  themes: readonly (keyof typeof THEMES)[]
): Promise<void> {
  for (const theme of themes) {
    await page.theme.setTheme(THEMES[theme]);
    await page.mouse.move(0, 0);
    // From its top, also where a button further down was clicked.
    await part.evaluate(element => element.scrollTo({ top: 0 }));
    // Two drawings later everything has the colours of the theme.
    await page.evaluate(() => new Promise(resolve => setTimeout(resolve, 1_500)));
    await part.screenshot({ path: join(IMAGES, `${name}-${theme}.png`), animations: 'disabled' });
  }
}

/** The dashboard over the whole main area, where its sections have room beside each other. */
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

testWith(8)('the panel beside a notebook and the dashboard, in all themes', async ({ lab, page }) => {
  const panel = await train(page, lab);
  await expect(await panel.section('Devices')).toContainText('8 devices busy');
  await page.setViewportSize({ width: 1440, height: 1250 });
  await panel.widen(435);
  await picture(page, panel.root, 'panels', ['light', 'dark', 'contrast']);
  await page.setViewportSize({ width: 1440, height: 1150 });
  const dashboard = await openDashboard(page);
  await picture(page, dashboard, 'dashboard', ['light', 'dark', 'contrast']);
});

testWith(256)('a slice of 256 devices in the panel', async ({ lab, page }) => {
  await mkdir(IMAGES, { recursive: true });
  await writeFile(join(lab.rootDir, 'slice.ipynb'), notebookText());
  await openNotebook(page, 'slice.ipynb');
  await page.sidebar.close('left');
  const panel = new TPULabPanel(page);
  await panel.open();
  const devices = await panel.section('Devices');
  await expect(devices).toContainText('256 devices busy');
  await page.setViewportSize({ width: 1440, height: 1900 });
  await devices.getByText('History and topology').click();
  await devices.getByRole('button', { name: 'Memory, network and disk of the host' }).click();
  const grid = devices.getByRole('slider', { name: 'Devices, one cell each' });
  await grid.focus();
  for (let at = 0; at < 5; at += 1) await grid.press('ArrowDown');
  await picture(page, devices, 'devices-256', ['light', 'dark']);
});
