/**
 * The holders of the chips: named by notebook for a kernel of the bridge, shown with a click, and released with another; and the lock
 * file that an ended process has left.
 */
import { access, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Locator } from '@playwright/test';
import { checkAccessibility } from './accessibility.js';
import { CHECKOUT } from '../lab/paths.js';
import { isAlive, waitUntil } from '../lab/processes.js';
import { expect, type LabFixtures, test as labTest } from './fixtures.js';
import { currentKernel, openNotebook, runInKernel } from './lab-page.js';
import { notebookText } from './notebook-file.js';
import { TPULabPanel } from './tpulab-panel.js';

const CHIPS = 4;

/** Replaces the parts of `/` where Linux shows chips and the processes that have their files open. */
class Machine {
  constructor(readonly root: string) {}

  async addChips(): Promise<void> {
    await this.#write('etc/passwd', `ada:x:${process.getuid?.() ?? 0}:1000::/:/bin/sh\n`);
    for (let chip = 0; chip < CHIPS; chip += 1) {
      const at = `sys/bus/pci/devices/0000:00:0${chip + 4}.0`;
      await this.#write(`${at}/vendor`, '0x1ae0\n');
      await this.#write(`${at}/device`, '0x0063\n');
      await this.#link(`${at}/iommu_group`, `../../../../kernel/iommu_groups/${chip}`);
      await this.#write(`dev/vfio/${chip}`, '');
    }
  }

  /** A process that has these chips open; for a real process, its environment is read as the gateway would. */
  async addHolder(pid: number, command: string, chips: readonly number[]): Promise<void> {
    await this.#write(`proc/${pid}/comm`, `${command}\n`);
    await this.#link(`proc/${pid}/environ`, `/proc/${pid}/environ`);
    for (const chip of chips) await this.#link(`proc/${pid}/fd/${chip}`, `/dev/vfio/${chip}`);
  }

  /** Linux removes a process when it has ended. */
  async removeHolder(pid: number): Promise<void> {
    await rm(join(this.root, 'proc', String(pid)), { recursive: true });
  }

  /** The file that libtpu leaves when its process ends. */
  async leaveLock(): Promise<string> {
    await this.#write('proc/locks', '');
    await this.#write('tmp/libtpu_lockfile', '');
    return join(this.root, 'tmp', 'libtpu_lockfile');
  }

  async #write(file: string, text: string): Promise<void> {
    await mkdir(dirname(join(this.root, file)), { recursive: true });
    await writeFile(join(this.root, file), text);
  }

  async #link(file: string, target: string): Promise<void> {
    await mkdir(dirname(join(this.root, file)), { recursive: true });
    await symlink(target, join(this.root, file));
  }
}

const test = labTest.extend<object, { machine: Machine } & Pick<LabFixtures, 'labOptions'>>({
  machine: [
    async ({}, use) => {
      const machine = new Machine(await mkdtemp(join(tmpdir(), 'tpulab-machine-')));
      await machine.addChips();
      await use(machine);
      await rm(machine.root, { recursive: true });
    },
    { scope: 'worker' }
  ],
  labOptions: [
    ({ machine }, use) => {
      const bridge = join(CHECKOUT, 'ui-tests', 'lab', 'chips-bridge.mjs');
      return use({
        galata: true,
        // No metadata server is contacted: its name only resolves in the cloud.
        env: { TPU_SKIP_MDS_QUERY: '1' },
        bridgeCommand: [process.execPath, bridge, machine.root]
      });
    },
    { scope: 'worker' }
  ]
});

test('the notebook that holds the chips is shown, and its kernel is shut down to release them', async ({
  lab,
  machine,
  page
}) => {
  await writeFile(join(lab.rootDir, 'holder.ipynb'), notebookText(['x = 1']));
  await writeFile(join(lab.rootDir, 'other.ipynb'), notebookText(['y = 2']));
  await openNotebook(page, 'holder.ipynb');
  const pid = Number(await runInKernel(page, 'import os\nprint(os.getpid())'));
  await machine.addHolder(pid, 'python3', [0, 1, 2]);
  // A process of another user, with a number that no kernel can have.
  const stranger = 2 ** 22 + 1;
  await machine.addHolder(stranger, 'train', [3]);

  // The widget is not returned, because its parts refer to each other.
  await page.evaluate(() =>
    window.jupyterapp.commands.execute('docmanager:open', { path: 'other.ipynb' }).then(() => undefined)
  );
  const tabOf = (name: string): Locator => page.getByRole('tab', { name, exact: true });
  await expect(tabOf('other.ipynb')).toHaveAttribute('aria-selected', 'true');
  const panel = new TPULabPanel(page);
  await panel.open();
  const devices = await panel.section('Devices');
  const holders = devices.getByRole('list', { name: 'Who holds the chips' }).getByRole('listitem');
  const mine = holders.filter({ hasText: 'holder.ipynb' });
  await expect(mine).toContainText('holds chips 0–2');
  await expect(mine).toContainText(`pid ${pid}`);
  await expect(mine).toContainText('user ada · python3 · kernel ');
  await expect(mine).toContainText('idle for');
  // A process that is not a kernel of the bridge cannot be ended from here.
  const theirs = holders.filter({ hasText: 'train' });
  await expect(theirs).toContainText('holds chip 3');
  await expect(theirs).toContainText('Not a TPULab kernel; it belongs to ada');
  await expect(theirs.getByRole('button')).toHaveCount(0);
  await checkAccessibility(page, panel.root);

  await mine.getByRole('button', { name: 'Show notebook' }).click();
  await expect(tabOf('holder.ipynb')).toHaveAttribute('aria-selected', 'true');

  const dialog = page.getByRole('dialog');
  await mine.getByRole('button', { name: 'Release the chips…' }).click();
  await expect(dialog).toContainText('Release the chips from holder.ipynb?');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await expect(dialog).toHaveCount(0);
  expect(await runInKernel(page, 'print(os.getpid())')).toBe(`${pid}\n`);

  await mine.getByRole('button', { name: 'Release the chips…' }).click();
  await dialog.getByRole('button', { name: 'Shut down the kernel' }).click();
  await waitUntil('The end of the kernel', () => Promise.resolve(isAlive(pid) ? null : true));
  await expect.poll(async () => (await currentKernel(page))?.id).toBeUndefined();
  await machine.removeHolder(pid);
  await expect(mine).toHaveCount(0);
  await expect(theirs).toHaveCount(1);
  await machine.removeHolder(stranger);
  await expect(devices).toContainText('The chips are free');
  await expect(holders).toHaveCount(0);

  const lock = await machine.leaveLock();
  await expect(devices).toContainText('/tmp/libtpu_lockfile');
  await checkAccessibility(page, panel.root);
  await devices.getByRole('button', { name: 'Remove the lock file' }).click();
  await expect(devices).not.toContainText('/tmp/libtpu_lockfile');
  await expect(access(lock)).rejects.toThrow('ENOENT');
});
