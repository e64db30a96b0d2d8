/** Makes the images of docs/session.md, as images.screenshots.ts does for JupyterLab. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { IMAGES } from '../lab/paths.js';
import { notebookText } from './notebook-file.js';
import { expect, open, test } from './session-steps.js';

const NOTEBOOK = 'training.ipynb';
const DATA = `import jax, jax.numpy as jnp, time
import tpulab

key = jax.random.key(0)
true_weights = jax.random.normal(key, (64,))

def batches(count, size=256):
    for index in range(count):
        inputs = jax.random.normal(jax.random.fold_in(key, index), (size, 64))
        yield inputs, inputs @ true_weights

@jax.jit
def train_step(weights, batch, learning_rate):
    inputs, targets = batch
    def loss_of(weights):
        return jnp.mean((inputs @ weights - targets) ** 2)
    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - learning_rate * gradient, loss`;
const TRAIN = `run = tpulab.run('linear', hyperparameters={
    'learning_rate': tpulab.hyper(0.001, min=1e-4, max=0.3, scale='log'),
})
run.on_checkpoint(lambda: None)
weights = jnp.zeros(64)
for batch in run.steps(batches(20_000), total=20_000):
    weights, loss = train_step(weights, batch, run.hyper.learning_rate)
    run.log(loss=loss)
    time.sleep(0.005)`;

test.use({ viewport: { width: 1440, height: 900 } });

test('a training in the session page, light, with the dialog that shares it, and dark with the panel', async ({
  page,
  gateway
}) => {
  await mkdir(IMAGES, { recursive: true });
  const cells = [
    [
      'title',
      '# Training loop\n\nA linear model in JAX. The step bar below shows where the time of each step goes.'
    ],
    ['train', '## Train\n\nPause it, or change the learning rate in the panel while it runs.']
  ].map(([id, source]) => ({ cell_type: 'markdown', id, metadata: {}, source }));
  const notebook = JSON.parse(notebookText([DATA, TRAIN])) as { cells: unknown[] };
  const [data, train] = notebook.cells;
  const [title, heading] = cells;
  await gateway.write(NOTEBOOK, JSON.stringify({ ...notebook, cells: [title, data, heading, train] }));
  await open(page, gateway, NOTEBOOK);
  await page.getByRole('button', { name: 'Run all' }).click();
  await expect(page.getByText(/of 20,000/).first()).toBeVisible();
  // Until compiling is behind the last 48 steps.
  await page.waitForTimeout(8_000);
  await page.locator('.jp-CodeCell').last().scrollIntoViewIfNeeded();
  await page.mouse.move(0, 0);
  await page.screenshot({ path: join(IMAGES, 'session-light.png'), animations: 'disabled' });
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Share a view…' }).click();
  const share = page.getByRole('dialog', { name: /^Share a view of/ });
  await share.getByRole('button', { name: 'Create link' }).click();
  await expect(share.getByLabel('Link', { exact: true })).toBeVisible();
  await page.screenshot({ path: join(IMAGES, 'session-share.png'), animations: 'disabled' });
  await share.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('button', { name: 'Open panel' }).click();
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitemradio', { name: 'Dark theme' }).click();
  await page.waitForTimeout(2_000);
  await page.screenshot({ path: join(IMAGES, 'session-dark.png'), animations: 'disabled' });
});
