/**
 * A Colab runtime from the dialog: its cost is shown before anything is created, at the width of a phone and of a desktop. Google is
 * the stand-in for its `colab` command, and the runtime is a stand-in VM with a root login.
 */
import { mkdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { ColabAccount, StandInVm } from '../../tests/stand-in-vm/index.js';
import { checkAccessibility } from './accessibility.js';
import { expect, test as base, withLab } from './fixtures.js';
import { setTheme } from './lab-page.js';
import { expectNothingClipped } from './clipped-parts.js';
import { why } from './remote-fixtures.js';

const test = base.extend<object, { vm: StandInVm; google: ColabAccount }>({
  vm: [
    async ({ browserName: _ }, use) => {
      await using vm = await StandInVm.start({ root: true });
      await use(vm);
    },
    { scope: 'worker', timeout: 420_000 }
  ],
  google: [
    async ({ vm }, use) => {
      const folder = join(vm.folder, 'google');
      await mkdir(folder);
      const google = await ColabAccount.make(folder);
      await google.answer({
        balance: 8.8,
        vm: { host: vm.network.vmAddress, port: 22, authorizedKeys: vm.rootKeys }
      });
      await use(google);
    },
    { scope: 'worker' }
  ],
  lab: [
    ({ vm, google }, use) =>
      withLab(
        {
          galata: true,
          env: { PATH: `${join(google.program, '..')}${delimiter}${vm.laptop.path}`, HOME: vm.laptop.home }
        },
        use
      ),
    { scope: 'worker', timeout: 420_000 }
  ]
});

test.skip(why !== null, why ?? '');

test('the terms and the cost are shown first, then the runtime is created, connected and ended', async ({
  google,
  page
}) => {
  await page.goto('?reset');
  await page.locator('[data-category="TPULab"]').getByText('Connect to a TPU…').click();
  const dialog = page.getByRole('dialog');
  const runtimes = dialog.getByRole('region', { name: 'Google Colab' });
  await runtimes.getByRole('option', { name: /TPU v5e1/ }).click();
  // The runtime has TPULab already, so that no environment of a gigabyte has to be copied there.
  await dialog.getByRole('button', { name: 'Options' }).click();
  await dialog.getByRole('checkbox', { name: /^Install what is missing/ }).uncheck();
  await dialog.getByRole('button', { name: /^Connect/ }).click();

  const consent = dialog.getByRole('region', { name: 'Create a Colab runtime with a TPU v5e1?' });
  await expect(consent).toContainText('with a positive balance of compute units');
  const figure = (label: string) => consent.locator('dl > div').filter({ hasText: label }).locator('dd');
  await expect(figure('Balance')).toHaveText('8.8 compute units');
  await expect(figure('Used now')).toHaveText('0 compute units/h');
  await expect(figure('Time left at this rate')).toHaveText('unknown');
  await expect(consent.getByRole('link', { name: 'Read the terms' })).toHaveAttribute('href', /faq/);
  // Enter alone agrees to nothing.
  await expect(dialog.getByRole('button', { name: "Don't connect" })).toBeFocused();
  for (const theme of ['light', 'dark'] as const) {
    await setTheme(page, theme);
    for (const width of [360, 1_600]) {
      await page.setViewportSize({ width, height: 640 });
      await expectNothingClipped(page, `consent, ${width} px, ${theme}`);
      await checkAccessibility(page, dialog.locator('.jp-TPULabDialog-frame'));
    }
  }
  await page.setViewportSize({ width: 1_000, height: 700 });
  expect(await google.calls('new')).toEqual([]);

  await dialog.getByRole('button', { name: 'Create runtime' }).click();
  await expect(dialog.getByText('Connected to colab-v5e1')).toBeVisible();
  expect(await google.running()).toHaveLength(1);
  await dialog.getByRole('button', { name: 'Disconnect and end runtime' }).click();
  await expect(dialog.getByRole('heading', { name: 'colab-v5e1 is not connected' })).toBeVisible();
  expect(await google.running()).toEqual([]);
});
