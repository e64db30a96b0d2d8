/** Makes the images of remotes: `TPULAB_SCREENSHOTS=1 npx playwright test -c ui-tests/playwright.config.ts remotes`. */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Locator } from '@playwright/test';
import { IMAGES } from '../lab/paths.js';
import { expect } from './fixtures.js';
import { openNotebook } from './lab-page.js';
import { notebookText } from './notebook-file.js';
import { test, why } from './remote-fixtures.js';

test.skip(why !== null, why ?? '');
test.describe.configure({ mode: 'serial' });
test.use({ viewport: { width: 1120, height: 760 }, vmOptions: { inCloud: true, hostName: 'my-tpu' } });

const QUIET = { 'instance/preempted': 'FALSE', 'instance/maintenance-event': 'NONE' };
const TPU_VMS = [
  ['train-v5e', 'us-east5-b', 'v5litepod-8', 'READY'],
  ['spot-v6e', 'us-east5-a', 'v6e-4', 'CREATING']
].map(([name, zone, acceleratorType, state]) => ({
  name: `projects/my-project/locations/${zone}/nodes/${name}`,
  acceleratorType,
  state
}));

test.beforeAll(async ({ vm }) => {
  await mkdir(IMAGES, { recursive: true });
  await vm.setMetadata(QUIET);
  await vm.laptop.answerGcloud([
    { words: ['config', 'get-value', 'project'], stdout: 'my-project\n' },
    { words: ['tpu-vm', 'list'], stdout: JSON.stringify(TPU_VMS) },
    { words: ['instances', 'list'], stdout: '[]' }
  ]);
  // The kernel as it is called where JAX was set up.
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

test('the dialog before, while and after it connects, and the launcher then', async ({ page, vm }) => {
  await vm.laptop.know([], '');
  await page.goto('?reset');
  await page.locator('[data-category="TPULab"]').getByText('Connect to a TPU VM…').click();
  const dialog = page.getByRole('dialog');
  const content = dialog.locator('.jp-Dialog-content');
  const choice = dialog.getByRole('button', { name: /^vm/ }).first();
  await expect(choice).toBeVisible();
  await expect(dialog.getByText('spot-v6e').first()).toBeVisible();
  await shoot(content, 'connect-choose');
  await choice.click();
  await expect(dialog.getByText(/fingerprint/i).first()).toBeVisible();
  await shoot(content, 'connect-question');
  await dialog.getByRole('button', { name: 'It is right: connect' }).click();
  await expect(dialog.getByText('connected', { exact: true })).toBeVisible();
  await shoot(content, 'connect-light');
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await expect(page.locator('[data-category="TPULab"]').getByText('JAX · vm')).toBeVisible();
  await shoot(page.locator('.jp-Launcher-section').first(), 'launcher-remote');
});

test('the banner when the machine is taken back, above a notebook whose training is to be saved', async ({
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
  await vm.setMetadata({ ...QUIET, 'instance/preempted': 'TRUE' });
  await expect(page.locator('.jp-TPULabBanner')).toContainText('is taken back by the cloud');
  await page.mouse.move(0, 0);
  await page.screenshot({
    path: join(IMAGES, 'banner-light.png'),
    animations: 'disabled',
    clip: { x: 0, y: 0, width: 1120, height: 300 }
  });
});
