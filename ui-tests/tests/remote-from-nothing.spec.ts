/**
 * A TPU VM on which nothing is installed, as somebody meets it: found in the dialog among those of the project, set up, used for the
 * getting-started notebook, away for a minute, and back. It reaches the package index, as a VM behind a NAT does.
 */
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type StandInVm, tpuDryRun, USER } from '../../tests/stand-in-vm/index.js';
import { LESSON, NOTEBOOKS } from '../lab/paths.js';
import { expect } from './fixtures.js';
import { currentKernel, openNotebook, readCells } from './lab-page.js';
import { expectLesson, runLesson } from './lesson-outputs.js';
import { notebookText } from './notebook-file.js';
import { test, why } from './remote-fixtures.js';

test.skip(why !== null, why ?? '');
// One machine goes through all of it. An environment of a gigabyte is downloaded, on a computer that may be busy.
test.describe.configure({ mode: 'serial', timeout: 900_000 });
test.use({ vmOptions: { bridge: false, internet: true, hostName: 'my-tpu' } });

const SPEC = 'remote/my-tpu/tpulab-jax';
const ZONE = 'us-east5-b';
const ALIAS = 'tpu.1234-0';
const LONG = { timeout: 600_000 };
/** Lines of the counting cell, of which one comes every tenth of a second: the link is away for a minute at least. */
const LINES_OF_A_MINUTE = 600;

/** The project has this machine, and one that is not ready. ssh to it is as gcloud says, which knows its host key. */
async function putIntoProject({ laptop, network }: StandInVm): Promise<void> {
  const nodes = [
    ['my-tpu', 'v5litepod-8', 'READY'],
    ['later', 'v6e-4', 'CREATING']
  ].map(([name, acceleratorType, state]) => ({
    name: `projects/my-project/locations/${ZONE}/nodes/${name}`,
    acceleratorType,
    state
  }));
  const known = join(laptop.ssh, 'google_compute_known_hosts');
  const [hostKey = ''] = (await readFile(laptop.knownHosts, 'utf8')).split('\n');
  await writeFile(known, `${hostKey.replace(/^\S+/, ALIAS)}\n`);
  const reached = {
    user: USER,
    address: network.vmAddress,
    key: join(laptop.ssh, 'id_ed25519'),
    knownHosts: known,
    hostKeyAlias: ALIAS
  };
  await laptop.answerGcloud([
    { words: ['config', 'get-value', 'project'], stdout: 'my-project\n' },
    { words: ['tpu-vm', 'list'], stdout: JSON.stringify(nodes) },
    { words: ['instances', 'list'], stdout: '[]' },
    { words: ['tpu-vm', 'describe', 'my-tpu'], stdout: '{"state": "READY"}' },
    { words: ['tpu-vm', 'ssh', 'my-tpu', '--dry-run'], stdout: tpuDryRun(reached) }
  ]);
}

test('a TPU VM of the project is chosen in the dialog, and gets all that it lacks', async ({ page, vm }) => {
  await putIntoProject(vm);
  expect(await vm.run('ls -A ~; command -v node tpulab || true')).toBe('.ssh\n');
  await page.goto('?reset');
  await page.locator('[data-category="TPULab"]').getByText('Connect to a TPU VM…').click();
  const dialog = page.getByRole('dialog');
  const machines = dialog.getByRole('region', { name: 'TPU VMs of your project' });
  await expect(machines.getByRole('heading')).toHaveText('TPU VMs of project my-project');
  await expect(machines.getByRole('listitem')).toHaveText([
    `my-tpuv5litepod-8 ${ZONE}READY`,
    `laterv6e-4 ${ZONE}CREATING`
  ]);
  await machines.getByRole('button', { name: /^my-tpu/ }).click();

  const stages = dialog.getByRole('list', { name: 'Stages' }).getByRole('listitem');
  const environment = stages.filter({ hasText: 'Environment jax' });
  // It is shown while it is being done, and not only when all is over.
  await expect(environment).toHaveClass(/jp-mod-running/, LONG);
  await expect(stages.filter({ hasText: 'Node' })).toContainText('downloaded there');
  await expect(dialog.getByText('connected', { exact: true })).toBeVisible(LONG);
  await expect(environment).toContainText('for the CPU');
  await expect(stages.filter({ hasText: 'uv' })).toContainText('downloaded there');
  for (const stage of await stages.all()) await expect(stage).toHaveClass(/jp-mod-(done|skipped)/);
  // It is no TPU, which is said, and nothing else is.
  const remarks = dialog.getByRole('region', { name: 'Checks' }).getByRole('listitem');
  await expect(remarks.filter({ hasText: 'no TPU chips' })).toHaveCount(1);
  expect(await vm.run('ls ~/.tpulab')).toContain('envs\n');

  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await expect(page.locator('[data-category="TPULab"]').getByText('JAX · my-tpu')).toBeVisible();
});

test('the getting-started notebook runs there top to bottom with the right outputs', async ({
  lab,
  page,
  vm
}) => {
  const file = join(lab.rootDir, LESSON);
  const notebook = JSON.parse(await readFile(file, 'utf8')) as { metadata: { kernelspec: object } };
  notebook.metadata.kernelspec = { name: SPEC, display_name: 'JAX · my-tpu', language: 'python' };
  await writeFile(file, JSON.stringify(notebook));
  // The digits that it reads, as somebody has copied them; syncing a folder is tried in remotes.spec.ts.
  await cp(join(NOTEBOOKS, 'data'), join(vm.home, 'data'), { recursive: true });

  await openNotebook(page, LESSON);
  await expect.poll(async () => (await currentKernel(page))?.name).toBe(SPEC);
  const kernel = await currentKernel(page);
  expect(await vm.run('ls ~/.tpulab/state/kernels')).toContain(`${kernel?.id}\n`);
  await runLesson(page);
  await expectLesson(page);
  await page.notebook.save();
});

test('a running cell loses nothing when its machine is away for a minute and the page loaded again meanwhile', async ({
  lab,
  page,
  vm
}) => {
  const source = `import pathlib, time
home = pathlib.Path.home()
n = 0
while not home.joinpath("stop").exists():
    print("line", n, flush=True)
    home.joinpath("printing").write_text(str(n))
    home.joinpath("printing").replace(home / "printed")
    n += 1
    time.sleep(0.1)
print("done")`;
  await writeFile(join(lab.rootDir, 'counting.ipynb'), notebookText([source], SPEC));
  await openNotebook(page, 'counting.ipynb');
  await expect.poll(async () => (await currentKernel(page))?.name).toBe(SPEC);
  const text = async (): Promise<string> => (await readCells(page))[0]?.text ?? '';
  /** The line that the machine has printed last, whether anybody has seen it or not. */
  const printed = async (): Promise<number> => Number(await readFile(join(vm.home, 'printed'), 'utf8'));
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
  await expect.poll(text).toContain('line 10\n');
  await page.evaluate(() => window.jupyterapp.commands.execute('docmanager:save').then(() => undefined));

  await vm.network.cut();
  const whenCut = await printed();
  await expect(page.locator('.jp-TPULabStatus-remote')).toContainText('reconnecting');
  await page.goto('tree/counting.ipynb?reset');
  const question = page.getByRole('dialog');
  await expect(question).toContainText('is not connected');
  await expect.poll(printed, LONG).toBeGreaterThan(whenCut + LINES_OF_A_MINUTE);
  await vm.network.restore();
  const whenRestored = await printed();

  // Nobody has to answer or to do anything: it is found again, and the cell goes on where everybody can see it.
  await expect(question).toBeHidden(LONG);
  await expect.poll(text, LONG).toContain(`line ${whenRestored + 20}\n`);
  await writeFile(join(vm.home, 'stop'), '');
  await expect.poll(text, LONG).toContain('done\n');
  const count = (await printed()) + 1;
  expect(count).toBeGreaterThan(LINES_OF_A_MINUTE);
  expect(await text()).toBe(`${Array.from({ length: count }, (_, n) => `line ${n}\n`).join('')}done\n`);
  await expect.poll(async () => (await readCells(page))[0]?.executionCount).toBe(1);
});
