/**
 * The first minutes: a user has cloned the project, runs `npm start`, and finds an empty TPU VM in the dialog.
 * It is set up, runs the getting-started notebook as shipped, loses its link while a cell runs, and reconnects. The VM reaches the
 * package index, like a VM behind a NAT.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Page, test as base } from '@playwright/test';
import { StandInVm, tpuDryRun, USER, unavailableReason } from '../../tests/stand-in-vm/index.js';
import { Newcomer } from '../lab/newcomer.js';
import { LESSON } from '../lab/paths.js';
import { expect } from './fixtures.js';
import { currentKernel, documentState, readCells } from './lab-page.js';
import { expectLesson, runLesson } from './lesson-outputs.js';
import { notebookText } from './notebook-file.js';

const test = base.extend<object, { vm: StandInVm; newcomer: Newcomer }>({
  vm: [
    async ({ browserName: _ }, use) => {
      await using vm = await StandInVm.start({ bridge: false, internet: true, hostName: 'my-tpu' });
      await use(vm);
    },
    { scope: 'worker', timeout: 420_000 }
  ],
  newcomer: [
    async ({ vm }, use) => {
      await putIntoProject(vm);
      const newcomer = await Newcomer.start(vm.laptop.home, vm.laptop.bin);
      await use(newcomer);
      await newcomer.stop();
    },
    { scope: 'worker', timeout: 420_000 }
  ]
});

const why = unavailableReason();
test.skip(why !== null, why ?? '');
// All tests use one machine. An environment of a gigabyte is downloaded, on a possibly busy computer.
test.describe.configure({ mode: 'serial', timeout: 900_000 });

const SPEC = 'remote/my-tpu/tpulab-jax';
const ZONE = 'us-east5-b';
const ALIAS = 'tpu.1234-0';
const LONG = { timeout: 600_000 };
/** Lines of the counting cell, one every tenth of a second, while the machine is unreachable. */
const LINES_WHILE_AWAY = 100;

interface NotebookFile {
  cells: {
    cell_type: string;
    source: string | string[];
    execution_count: number | null;
    outputs: { output_type: string }[];
  }[];
}
/** Up to the training cell, which would compile for minutes: `npm run test:remote-notebooks` runs the notebook as shipped. */
function untilTraining(text: string): string {
  const notebook = JSON.parse(text) as NotebookFile;
  const training = notebook.cells.findIndex(({ source }) =>
    [source].flat().join('').includes('trainer.train(')
  );
  if (training < 0) throw new Error('No cell of the notebook trains.');
  return JSON.stringify({ ...notebook, cells: notebook.cells.slice(0, training) });
}

/** Adds this machine to the project, and one that is not ready. ssh to it uses gcloud's settings, which include its host key. */
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

/** Lab on one document, without previously opened ones. */
async function open(page: Page, newcomer: Newcomer, path: string): Promise<void> {
  await page.goto(newcomer.url(path));
  await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
  await expect(page.getByRole('tab', { name: path, selected: true })).toBeVisible();
}

test('a TPU VM of the project is chosen in the dialog, and gets all that it lacks', async ({
  newcomer,
  page,
  vm
}) => {
  expect(await vm.run('ls -A ~; command -v node tpulab || true')).toBe('.ssh\n');
  await page.goto(newcomer.url());
  await page.locator('[data-category="TPULab"]').getByText('Connect to a TPU…').click();
  const dialog = page.getByRole('dialog');
  const machines = dialog.getByRole('region', { name: 'TPU VMs' });
  await expect(machines).toContainText('my-project');
  await expect(machines.getByRole('option')).toHaveText([
    `my-tpuv5litepod-8 · ${ZONE}ready`,
    `laterv6e-4 · ${ZONE}creating…`
  ]);
  await machines.getByRole('option', { name: /^my-tpu/ }).click();
  await dialog.getByRole('button', { name: 'Connect to my-tpu' }).click();

  const stages = dialog.getByRole('list', { name: 'Stages' }).getByRole('listitem');
  const environment = stages.filter({ hasText: 'JAX environment' });
  // It is shown during the work, and not only at the end.
  await expect(environment).toHaveClass(/jp-mod-running/, LONG);
  await expect(stages.filter({ hasText: 'Node' })).toContainText('downloaded by the machine');
  await expect(dialog.getByText('Connected to my-tpu')).toBeVisible(LONG);
  await dialog.getByText('Setup details').click();
  await expect(environment).toContainText('for the CPU');
  await expect(stages.filter({ hasText: 'uv' })).toContainText('downloaded by the machine');
  for (const stage of await stages.all()) await expect(stage).toHaveClass(/jp-mod-(done|skipped)/);
  // The only remark is that it is not a TPU.
  const remarks = dialog.getByRole('note');
  await expect(remarks.filter({ hasText: /no TPU chips/i })).toHaveCount(1);
  expect(await vm.run('ls ~/.tpulab')).toContain('envs\n');

  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await expect(page.locator('[data-category="TPULab"]').getByText('JAX · my-tpu')).toBeVisible();
});

test('the getting-started notebook runs there unchanged, top to bottom, with the right outputs', async ({
  newcomer,
  page,
  vm
}) => {
  await open(page, newcomer, LESSON);
  await expect.poll(async () => (await currentKernel(page))?.name).toBe('tpulab-jax');
  // Opening it has changed nothing, though the kernel has sent its details.
  await expect.poll(async () => documentState(page)).toEqual({ hasKernelDetails: true, isDirty: false });
  await page.getByRole('button', { name: 'JAX (XLA) on this machine', exact: true }).click();
  const picker = page.getByRole('dialog');
  await picker.getByRole('combobox').selectOption('JAX · my-tpu');
  await picker.getByRole('button', { name: 'Select Kernel' }).click();
  await expect.poll(async () => (await currentKernel(page))?.name).toBe(SPEC);
  const kernel = await currentKernel(page);
  expect(await vm.run('ls ~/.tpulab/state/kernels')).toContain(`${kernel?.id}\n`);
  await runLesson(page);
  expectLesson(await readCells(page));
});

test('a lesson runs there from the command line, and its requirements come with the environment', async ({
  newcomer,
  vm
}) => {
  const file = join(newcomer.rootDir, 'short.ipynb');
  const shipped = await readFile(join(newcomer.rootDir, '05-ddpm.ipynb'), 'utf8');
  await writeFile(file, untilTraining(shipped));
  const before = await vm.run('ls ~');
  await newcomer.tpulab('execute', file, '--on', 'my-tpu', '--json');
  const { cells } = JSON.parse(await readFile(file, 'utf8')) as NotebookFile;
  const code = cells.filter(cell => cell.cell_type === 'code');
  expect(code.map(cell => cell.execution_count)).toEqual(code.map((_, at) => at + 1));
  expect(code.flatMap(cell => cell.outputs).map(output => output.output_type)).not.toContain('error');
  // Its file exists only on the machine, so the lesson ran there.
  expect(before).not.toContain('ddpm-run');
  expect(await vm.run('ls ~')).toContain('ddpm-run\n');
});

test('a running cell loses nothing when its link is cut and the page loaded again meanwhile', async ({
  newcomer,
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
  await writeFile(join(newcomer.rootDir, 'counting.ipynb'), notebookText([source], SPEC));
  await open(page, newcomer, 'counting.ipynb');
  await expect.poll(async () => (await currentKernel(page))?.name).toBe(SPEC);
  const text = async (): Promise<string> => (await readCells(page))[0]?.text ?? '';
  /** The line that the machine has printed last, displayed or not. */
  const printed = async (): Promise<number> => Number(await readFile(join(vm.home, 'printed'), 'utf8'));
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
  await expect.poll(text).toContain('line 10\n');
  await page.evaluate(() => window.jupyterapp.commands.execute('docmanager:save').then(() => undefined));

  await vm.network.cut();
  const whenCut = await printed();
  await expect(page.locator('.jp-TPULabStatus-remote')).toContainText('reconnecting');
  await page.goto(newcomer.url('counting.ipynb'));
  const question = page.getByRole('dialog');
  await expect(question).toContainText('is not connected');
  await expect.poll(printed, LONG).toBeGreaterThan(whenCut + LINES_WHILE_AWAY);
  await vm.network.restore();
  const whenRestored = await printed();

  // No user action is needed: the machine is found again, and the cell visibly continues.
  await expect(question).toBeHidden(LONG);
  await expect.poll(text, LONG).toContain(`line ${whenRestored + 20}\n`);
  await writeFile(join(vm.home, 'stop'), '');
  await expect.poll(text, LONG).toContain('done\n');
  const count = (await printed()) + 1;
  expect(count).toBeGreaterThan(LINES_WHILE_AWAY);
  expect(await text()).toBe(`${Array.from({ length: count }, (_, n) => `line ${n}\n`).join('')}done\n`);
  await expect.poll(async () => (await readCells(page))[0]?.executionCount).toBe(1);
});

test('the command line finds the gateway of npm start', async ({ newcomer }) => {
  const { remotes } = JSON.parse(await newcomer.tpulab('machine', 'ls', '--json')) as {
    remotes: { name: string; state: string }[];
  };
  expect(remotes).toMatchObject([{ name: 'my-tpu', state: 'connected' }]);
});
