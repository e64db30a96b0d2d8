/** A kernel of two hosts in the page: a host is lost and training continues with one click, and output in tabs. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openNotebook, readCells, runInKernel } from './lab-page.js';
import { printedBy, startCell } from './notebook-training.js';
import { cell, openElsewhere } from './session-steps.js';
import { expect, SLICE_KERNEL, test } from './slice-kernel.js';

/** In the first run it waits to be killed at step 4; the second run completes. */
const TRAINING = `run = tpulab.run("counted")
run.on_checkpoint(lambda step: f"after {step}", every=2)
start = run.restore(lambda checkpoint: print("loaded", checkpoint.saved))
for number in run.steps(range(start, 8)):
    if start == 0 and number == 5:
        print("ready", flush=True)
        time.sleep(600)
print("steps", start, "to", run.step_index)`;

/** The output of a slice of four hosts. */
const TABS = `from IPython.display import display
from tpulab.slice.fold import bundle_of
from tpulab.slice.recording import Part
def printed(text):
    part = Part(True)
    part.add_text("stdout", text)
    return part
display(bundle_of([([1, 3], printed("one\\n"), False), ([2], printed("two\\n"), False)], 0, False), raw=True)`;

/** Only process 1 knows these widgets. */
const WIDGETS = `%%host 1
import ipywidgets
from IPython.display import display
from tqdm.notebook import tqdm
slider = ipywidgets.IntSlider(3, description="of host 1")
display(slider)
for step in tqdm(range(4), desc="steps"): pass`;

const CELLS = {
  imports: 'import os, time, jax, tpulab',
  unused: 'raise RuntimeError("nobody has run this cell")',
  hosts: `print("process of one of", jax.process_count())`,
  tabs: TABS,
  widgets: WIDGETS,
  training: TRAINING
};

function notebook(cells: Readonly<Record<string, string>>): string {
  return JSON.stringify({
    cells: Object.entries(cells).map(([id, source]) => ({
      ...{ cell_type: 'code', id, metadata: {}, execution_count: null, outputs: [] },
      source
    })),
    metadata: { kernelspec: { name: SLICE_KERNEL, display_name: SLICE_KERNEL, language: 'python' } },
    nbformat: 4,
    nbformat_minor: 5
  });
}

test('widgets of another host respond, and training continues with one click after it was killed, in JupyterLab and in the session page', async ({
  browser,
  lab,
  page
}) => {
  await writeFile(join(lab.rootDir, 'lost.ipynb'), notebook(CELLS));
  await openNotebook(page, 'lost.ipynb');
  for (const id of ['imports', 'hosts']) {
    await startCell(page, id);
  }
  await expect.poll(() => printedBy(page, 'hosts')).toBe('process of one of 2\n');
  await expect(page.getByText('host 1: same as host 0')).toBeVisible();
  await startCell(page, 'tabs');
  const tabs = page.getByRole('tablist', { name: 'Output of other hosts' });
  await expect(tabs.getByRole('tab')).toHaveText(['hosts 1, 3', 'host 2']);
  await tabs.getByRole('tab', { name: 'host 2' }).click();
  await expect(page.getByRole('tabpanel', { name: 'host 2' })).toContainText('two');
  await page.keyboard.press('ArrowLeft');
  await expect(page.getByRole('tabpanel', { name: 'hosts 1, 3' })).toContainText('one');
  await expect(page.getByRole('tabpanel', { name: 'host 2' })).toBeHidden();
  await startCell(page, 'widgets');
  const ofHost1 = page.locator('.jp-OutputArea', { hasText: 'of host 1' });
  await expect(ofHost1).toContainText('4/4');
  await ofHost1.getByRole('slider').press('ArrowRight');
  await expect.poll(() => runInKernel(page, '%%host 1\nprint(slider.value)')).toBe('4\n');
  const process1 = Number(await runInKernel(page, '%%host 1\nprint(os.getpid())'));
  await startCell(page, 'training');
  await expect.poll(() => printedBy(page, 'training')).toContain('ready');
  // A page opened after the cells were run has the same information.
  await page.evaluate(() => window.jupyterapp.commands.execute('docmanager:save').then(() => undefined));
  await page.reload();
  await expect.poll(() => printedBy(page, 'training')).toContain('ready');
  await expect(page.getByText('host 1: same as host 0').first()).toBeVisible();
  process.kill(process1, 'SIGKILL');

  const notice = page.locator('.jp-TPULabNotice');
  await expect(notice).toContainText(
    'Host 1 is lost: its process was killed by SIGKILL. All hosts were ended.'
  );
  await notice.getByRole('button', { name: 'Restart and rerun' }).click();
  await expect.poll(() => printedBy(page, 'training')).toContain('steps 4 to 8\n');
  expect(await printedBy(page, 'training')).toContain('loaded after 4\n');
  expect(await printedBy(page, 'hosts')).toBe('process of one of 2\n');
  await expect(notice).toBeHidden();
  const cells = await readCells(page);
  expect(cells.find(({ id }) => id === 'unused')?.executionCount).toBeNull();

  const restartedPid = Number(await runInKernel(page, '%%host 1\nprint(os.getpid())'));
  await page.evaluate(() => window.jupyterapp.commands.execute('docmanager:save').then(() => undefined));
  await page.goto('about:blank');
  const { url, token } = await lab.reach();
  const session = await openElsewhere(browser, `${url}session/lost.ipynb#token=${token}`);
  // The saved content of the notebook is shown immediately, and again when the page trusts it.
  await expect(async () => {
    await session.getByRole('tab', { name: 'host 2' }).click();
    await expect(session.getByRole('tabpanel', { name: 'host 2' })).toContainText('two', { timeout: 2000 });
  }).toPass();
  process.kill(restartedPid, 'SIGKILL');
  const hosts = cell(session, Object.keys(CELLS).indexOf('hosts'));
  await hosts.locator('.cm-content').click();
  await session.keyboard.press('Control+Enter');
  await expect(hosts).toContainText('HostLostError');
  await session.getByRole('button', { name: 'Restart and rerun' }).click();
  await expect(hosts).toContainText('process of one of 2');
  await session.context().close();
});
