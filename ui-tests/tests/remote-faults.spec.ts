/** Faults of a TPU VM from the view of a JupyterLab user: the preserved data, the messages, and the possible actions. */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Locator } from '@playwright/test';
import type { Remote } from '@tpulab/protocol';
import { smallDiskProblem } from '../../kernel-bridge/src/faults/testing/small-disk.js';
import type { LabServer } from '../lab/lab-server.js';
import { checkAccessibility } from './accessibility.js';
import { expect } from './fixtures.js';
import { currentKernel, openNotebook, readCells, setTheme } from './lab-page.js';
import { notebookText } from './notebook-file.js';
import { request, test, why } from './remote-fixtures.js';
import { openElsewhere } from './session-steps.js';

const reason = why ?? smallDiskProblem();
test.skip(reason !== null, reason ?? '');
// All tests use one machine.
test.describe.configure({ mode: 'serial' });
test.use({ vmOptions: { homeDiskMiB: 64, inCloud: true } });

const SPEC = 'remote/vm/lossless';
/** Until an unreachable machine is found again, on a computer that is busy with other tasks. */
const LONG = { timeout: 120_000 };
const QUIET = { 'instance/preempted': 'FALSE', 'instance/maintenance-event': 'NONE' };

test.beforeAll(async ({ lab, vm }) => {
  await vm.setMetadata(QUIET);
  await connect(lab);
});

function remote(lab: LabServer): Promise<Remote> {
  return request(lab, 'GET', 'bridge/v1/machines/vm') as Promise<Remote>;
}

async function connect(lab: LabServer): Promise<void> {
  await request(lab, 'POST', 'bridge/v1/machines/vm/connect');
  // The whole text, so that a failure shows the reason.
  await expect.poll(() => remote(lab), LONG).toMatchObject({ state: 'connected' });
}

/** A cell that counts to 60, and waits in the middle until its gate is a file in the home folder of the machine. */
function counting(gate: string): string {
  return `import pathlib, time
for n in range(60):
    print("line", n, flush=True)
    while n == 30 and not pathlib.Path.home().joinpath("${gate}").exists():
        time.sleep(0.02)`;
}

const lines = (end: number): string => Array.from({ length: end }, (_, n) => `line ${n}\n`).join('');

async function textOf(page: IJupyterLabPageFixture, index = 0): Promise<string> {
  return (await readCells(page))[index]?.text ?? '';
}

/** Opens a notebook with these cells on the machine, and runs all of them without waiting for them. */
async function begin(
  lab: LabServer,
  page: IJupyterLabPageFixture,
  name: string,
  sources: readonly string[]
): Promise<void> {
  await writeFile(join(lab.rootDir, name), notebookText(sources, SPEC));
  await openNotebook(page, name);
  await expect.poll(async () => (await currentKernel(page))?.name).toBe(SPEC);
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
}

function save(page: IJupyterLabPageFixture): Promise<void> {
  return page.evaluate(() => window.jupyterapp.commands.execute('docmanager:save').then(() => undefined));
}

function isDirty(page: IJupyterLabPageFixture): Promise<boolean> {
  return page.evaluate(() => (window.jupyterapp.shell.currentWidget as NotebookPanel).context.model.dirty);
}

/** Checks a part of the page in both themes. */
async function isAccessible(page: IJupyterLabPageFixture, part: Locator): Promise<void> {
  for (const theme of ['dark', 'light'] as const) {
    // Galata waits for the menu, which a dialog hides; the theme is set nevertheless.
    await setTheme(page, theme).catch(() => undefined);
    await checkAccessibility(page, part);
  }
}

test('its gateway is killed in mid-cell: every line is there once and in order', async ({
  lab,
  page,
  vm
}) => {
  await begin(lab, page, 'killed.ipynb', [counting('killed')]);
  await expect.poll(() => textOf(page)).toBe(lines(31));
  const { gatewayId } = await remote(lab);
  await vm.run('kill -9 $(sed -n \'s/.*"pid":\\([0-9]*\\).*/\\1/p\' ~/.local/state/tpulab/gateway.json)');
  await writeFile(join(vm.home, 'killed'), '');
  await expect
    .poll(async () => {
      const { state, gatewayId: now } = await remote(lab);
      return state === 'connected' && now !== gatewayId;
    }, LONG)
    .toBe(true);
  await expect.poll(() => textOf(page), LONG).toBe(lines(60));
  await expect.poll(async () => (await readCells(page))[0]?.executionCount).toBe(1);
});

test('the bridge of this computer is killed in mid-cell: every line is there once and in order', async ({
  lab,
  page,
  vm
}) => {
  await begin(lab, page, 'laptop.ipynb', [counting('laptop')]);
  await expect.poll(() => textOf(page)).toBe(lines(31));
  const { gatewayId } = await remote(lab);
  const { before, after } = await lab.killGateway();
  expect(after.pid).not.toBe(before.pid);
  // The kernel continues there, while no client here receives its messages.
  await writeFile(join(vm.home, 'laptop'), '');
  await expect.poll(() => textOf(page), LONG).toBe(lines(60));
  await expect.poll(async () => (await readCells(page))[0]?.executionCount).toBe(1);
  // The remote is connected again, to the same gateway there, without a user action.
  await expect.poll(() => remote(lab), LONG).toMatchObject({ state: 'connected', gatewayId });
});

test("it is rebooted: the notebook reports its kernel's end, and offers another", async ({
  lab,
  page,
  vm
}) => {
  await begin(lab, page, 'rebooted.ipynb', [counting('never'), 'print("after")']);
  await expect.poll(() => textOf(page)).toBe(lines(31));
  await vm.reboot();
  const notice = page.locator('.jp-TPULabNotice');
  await expect(notice).toContainText('has ended: vm was restarted or recreated', LONG);
  expect(await textOf(page)).toBe(lines(31));
  await isAccessible(page, notice);

  await notice.getByRole('button', { name: 'Start the kernel again' }).click();
  await expect.poll(async () => (await currentKernel(page))?.name, LONG).toBe(SPEC);
  await expect(notice).toBeHidden();
  expect(await page.notebook.runCell(1, true)).toBe(true);
  await expect.poll(() => textOf(page, 1)).toBe('after\n');
});

test('its disk is full: this is reported, and with space again it connects', async ({ lab, page, vm }) => {
  await request(lab, 'POST', 'bridge/v1/machines/vm/disconnect');
  await vm.machine.powerOff();
  vm.fillDisk();
  await vm.boot();
  await page.goto('?reset');
  await page.evaluate(() =>
    window.jupyterapp.commands.execute('tpulab:remotes', { name: 'vm' }).then(() => undefined)
  );
  const tab = page.locator('.jp-TPULabRemotes');
  const button = tab.getByRole('button', { name: 'Connect: vm' });
  await button.click();
  await expect(tab.getByRole('alert')).toContainText(/disk .*full|no space/i, LONG);
  await isAccessible(page, tab);
  vm.freeDisk();
  await button.click();
  await expect(tab.getByText('connected', { exact: true }).first()).toBeVisible(LONG);
});

test('its host key is another one: nothing is sent, and the dialog explains it', async ({
  lab,
  page,
  vm
}) => {
  await request(lab, 'POST', 'bridge/v1/machines/vm/disconnect');
  await vm.changeHostKey();
  await writeFile(join(lab.rootDir, 'key.ipynb'), notebookText([''], SPEC));
  await page.goto('tree/key.ipynb?reset');
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('is not connected');
  await dialog.getByRole('button', { name: 'Connect' }).click();
  const alert = dialog.getByRole('alert');
  await expect(alert).toContainText('differs from the one on record', LONG);
  await expect(alert.locator('code')).toContainText('ssh-keygen');
  await isAccessible(page, dialog.locator('.jp-TPULabDialog-frame'));
  await dialog.getByRole('button', { name: 'Close' }).last().click();

  // Runs the shown command, and then accepts the new key.
  await vm.knowHostKey();
  await connect(lab);
  await expect.poll(async () => (await currentKernel(page))?.name, LONG).toBe(SPEC);
});

test('it rejects the key: the dialog reports it and which command to try, and with the right one it connects', async ({
  lab,
  page,
  vm
}) => {
  await request(lab, 'POST', 'bridge/v1/machines/vm/disconnect');
  await vm.authorize(await vm.laptop.makeKey('another', ''));
  await page.goto('?reset');
  await page.locator('[data-category="TPULab"]').getByText('Connect to a TPU…').click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('option', { name: /^vm/ }).click();
  await dialog.getByRole('button', { name: 'Connect to vm' }).click();
  const alert = dialog.getByRole('alert');
  await expect(alert).toContainText('vm rejected the user or the key (', LONG);
  await expect(alert).toContainText('Permission denied (publickey)');
  await expect(alert.locator('code')).toHaveText('ssh vm');
  await isAccessible(page, dialog.locator('.jp-TPULabDialog-frame'));

  await vm.authorize(await vm.laptop.publicKey());
  await dialog.getByRole('button', { name: 'Try again' }).click();
  await expect(dialog.getByText('Connected to vm')).toBeVisible(LONG);
});

const TRAIN = `import time, tpulab
run = tpulab.run("far")

@run.on_checkpoint
def save(step):
    print("saved at", step, flush=True)

for n in run.steps(range(1_000_000)):
    if n % 50 == 0:
        print("step", n, flush=True)
    time.sleep(0.02)`;

test('it is preempted: there is time for a checkpoint, and the printed output can be read after its end', async ({
  lab,
  page,
  vm
}) => {
  await begin(lab, page, 'taken.ipynb', [TRAIN]);
  await expect.poll(() => textOf(page)).toContain('step 50\n');
  await save(page);

  await vm.setMetadata({ ...QUIET, 'instance/preempted': 'TRUE' });
  const banner = page.locator('.jp-TPULabBanner');
  await expect(banner).toContainText(/vm will be preempted (in \d+ s|at any moment)/);
  // The gateway there requests a checkpoint automatically; the button is for the latest possible one.
  const saved = async (): Promise<number> => (await textOf(page)).split('saved at ').length - 1;
  await expect.poll(saved).toBe(1);
  await banner.getByRole('button', { name: 'Take a checkpoint' }).click();
  await expect.poll(saved).toBe(2);
  await expect(page.getByText('Checkpoint taken: far')).toBeVisible();
  await isAccessible(page, banner);
  await expect.poll(async () => JSON.stringify(await mirrored(lab)).split('saved at ').length - 1).toBe(2);

  await vm.machine.powerOff();
  await expect(page.locator('.jp-TPULabStatus-remote')).toContainText('preempted', LONG);
  await expect(banner).toBeHidden();
  const notice = page.locator('.jp-TPULabNotice');
  await expect(notice).toContainText('vm was preempted');

  await page.goto('tree/taken.ipynb?reset');
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('which was preempted');
  await dialog.getByRole('button', { name: 'No kernel' }).click();
  // The file was saved earlier: all later outputs are from the stored copy.
  await expect.poll(() => textOf(page)).toMatch(/^step 0\n(.*\n)*saved at \d+\n(.*\n)*saved at \d+\n/);
  await expect(notice).toContainText(/One cell shows its output on vm as copied to this machine, up to \d/);
  await expect(notice).toContainText('It was still running then');
  // Data that only this machine has must be saved.
  expect(await isDirty(page)).toBe(true);
  await isAccessible(page, notice);
});

const RUN = /^run \S+\s*$/;

test('it is recreated with a new disk: both pages report it, and one click starts the kernel and runs the earlier cells', async ({
  browser,
  lab,
  page,
  vm
}) => {
  await vm.setMetadata(QUIET);
  await vm.boot();
  await connect(lab);
  const cells = ['import uuid', 'print("run", uuid.uuid4())'];
  await begin(lab, page, 'again.ipynb', cells);
  await expect.poll(() => textOf(page, 1)).toMatch(RUN);
  const ranBefore = await textOf(page, 1);
  await writeFile(join(lab.rootDir, 'session.ipynb'), notebookText(cells, SPEC));
  const { url, token } = await lab.reach();
  const session = await openElsewhere(browser, `${url}session/session.ipynb#token=${token}`);
  const printed = session.locator('.jp-CodeCell .jp-OutputArea-output');
  await expect(session.getByRole('button', { name: /^Runtime: vm, .* connected, / })).toBeVisible();
  await session.getByRole('button', { name: 'Run all' }).click();
  await expect(printed).toContainText(RUN);
  const printedBefore = await printed.innerText();

  await vm.setMetadata({ ...QUIET, 'instance/preempted': 'TRUE' });
  await expect(page.locator('.jp-TPULabBanner')).toContainText('vm will be preempted');
  await vm.machine.powerOff();
  const notices = [
    page.locator('.jp-TPULabNotice'),
    session.locator('.tpl-Banner', { hasText: 'was preempted' })
  ];
  for (const notice of notices) {
    await expect(notice).toContainText('vm was preempted, and the kernel of this notebook with it', LONG);
  }

  await rm(join(vm.home, '.local', 'state', 'tpulab'), { recursive: true });
  await vm.setMetadata(QUIET);
  await vm.boot();
  await connect(lab);
  for (const notice of notices) {
    await expect(notice).toContainText(/vm was preempted and has been back since \d\d:\d\d:\d\d\./, LONG);
  }
  await isAccessible(page, notices[0]!);
  await checkAccessibility(session, notices[1]!);
  for (const notice of notices) {
    await notice.getByRole('button', { name: 'Restart and rerun' }).click();
    await expect(notice).toBeHidden();
  }
  for (const [again, before] of [
    [() => textOf(page, 1), ranBefore],
    [async () => (await printed.allInnerTexts()).join(''), printedBefore]
  ] as const) {
    await expect.poll(async () => RUN.test(await again()) && (await again()) !== before, LONG).toBe(true);
  }
  expect((await currentKernel(page))?.name).toBe(SPEC);
  await session.context().close();
});

/** The outputs of the remote's kernels as stored on this machine. */
async function mirrored(lab: LabServer): Promise<unknown[]> {
  const at = 'bridge/v1/machines/vm/mirror';
  const { kernels } = (await request(lab, 'GET', at)) as { kernels: { kernelId: string }[] };
  return Promise.all(kernels.map(({ kernelId }) => request(lab, 'GET', `${at}/${kernelId}/outputs`)));
}
