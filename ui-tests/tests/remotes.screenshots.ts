/** Makes the images of remotes: `TPULAB_SCREENSHOTS=1 npx playwright test -c ui-tests/playwright.config.ts remotes`. */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Locator } from '@playwright/test';
import { IMAGES } from '../lab/paths.js';
import { expect } from './fixtures.js';
import { openNotebook } from './lab-page.js';
import { notebookText } from './notebook-file.js';
import { request, test, why } from './remote-fixtures.js';
import { markSimulated, requireFonts, useFonts } from './screenshot-page.js';

test.skip(why !== null, why ?? '');
test.describe.configure({ mode: 'serial' });
test.use({ viewport: { width: 1120, height: 760 }, vmOptions: { inCloud: true, hostName: 'my-tpu' } });

const QUIET = { 'instance/preempted': 'FALSE', 'instance/maintenance-event': 'NONE' };

test.beforeAll(async ({ vm }) => {
  requireFonts();
  await mkdir(IMAGES, { recursive: true });
  await vm.setMetadata(QUIET);
  // The kernel's name after the setup of JAX.
  const kernels = join(vm.home, 'jupyter', 'kernels');
  const file = join(kernels, 'lossless', 'kernel.json');
  const text = await readFile(file, 'utf8');
  await writeFile(file, text.replace('Spec lossless', 'JAX (XLA) on this machine'));
  await rm(join(kernels, 'python3'), { recursive: true });
});

async function shoot(part: Locator, name: string): Promise<void> {
  await part.page().mouse.move(0, 0);
  await part.screenshot({ path: join(IMAGES, `${name}.png`), animations: 'disabled' });
}

test('the launcher with a remote that is connected', async ({ lab, page }) => {
  await request(lab, 'POST', 'bridge/v1/machines/vm/connect');
  await page.goto('?reset');
  await expect(page.locator('[data-category="TPULab"]').getByText('JAX · vm')).toBeVisible();
  await useFonts(page);
  const section = page.locator('.jp-Launcher-section').first();
  await markSimulated(section, 'Simulated machine');
  await shoot(section, 'launcher-remote');
});

test('the banner of a preempted machine, above a notebook whose training is to be saved', async ({
  lab,
  page,
  vm
}) => {
  const source = `run = tpulab.run("fine-tune")

@run.on_checkpoint
def save(step):
    checkpoints.save(step, state)

for batch in run.steps(loader):
    state, loss = train_step(state, batch)`;
  await writeFile(join(lab.rootDir, 'fine-tune.ipynb'), notebookText([source], 'remote/vm/lossless'));
  await openNotebook(page, 'fine-tune.ipynb');
  await page.sidebar.close('left');
  await vm.setMetadata({ ...QUIET, 'instance/preempted': 'TRUE' });
  const banner = page.locator('.jp-TPULabBanner');
  await expect(banner).toContainText('will be preempted');
  await useFonts(page);
  await markSimulated(banner, 'Simulated machine');
  await page.mouse.move(0, 0);
  await page.screenshot({
    path: join(IMAGES, 'banner-light.png'),
    animations: 'disabled',
    clip: { x: 0, y: 0, width: 1120, height: 300 }
  });
});
