/**
 * Pre-flight in the panel of session page and JupyterLab. A stand-in that waits replaces the Python with the TPU compiler, and
 * prints a report of the real compiler (tests/preflight/report.json: `tpulab check` of these cells with JAX 0.10.2 and libtpu
 * 0.0.50). Where `npm run test:aot` has made an environment, one test runs the real compiler.
 */
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, type Locator, type Page, test as plain } from '@playwright/test';
import { CHECKOUT } from '../lab/paths.js';
import { SessionGateway } from '../lab/session-gateway.js';
import { checkAccessibility } from './accessibility.js';
import { test as inLab } from './fixtures.js';
import { openNotebook } from './lab-page.js';
import { notebookText } from './notebook-file.js';
import { cell, command, complaintsOf, open, openElsewhere } from './session-steps.js';
import { TPULabPanel } from './tpulab-panel.js';

const CELLS = [
  'import jax\nimport jax.numpy as jnp\nimport numpy as np',
  "def loss(w, x):\n    h = jnp.tanh(x @ w['up'])\n    return jnp.mean((h @ w['down'] - x) ** 2)",
  '@jax.jit\ndef train_step(state, x):\n    grads = jax.grad(loss)(state, x)\n    return jax.tree.map(lambda w, g: w - 0.1 * g, state, grads)\n\n@jax.jit\ndef eval_step(state, x):\n    return loss(state, x)',
  "key = jax.random.key(0)\nstate = {'up': jnp.zeros((256, 1024)), 'down': jnp.zeros((1024, 256))}\nfor rows in (64, 64, 40):\n    state = train_step(state, np.ones((rows, 256), np.float32))\nprint(eval_step(state, np.ones((64, 256), np.float32)))",
  "# The full size, which is compiled and never run\nbig = {'up': jax.ShapeDtypeStruct((16384, 163840), jnp.float32), 'down': jax.ShapeDtypeStruct((163840, 16384), jnp.float32)}\n@jax.jit(donate_argnames='state')\ndef wide_step(state, x):\n    return train_step(state, x)\n\nwide_step.lower(big, jax.ShapeDtypeStruct((256, 16384), jnp.float32))"
];
const COMPILER = join(CHECKOUT, '.tpulab', 'test', 'aot', 'bin', 'python');

interface Checked {
  readonly gateway: SessionGateway;
  /** Lets the waiting program end. */
  readonly go: () => Promise<void>;
  readonly hold: () => Promise<void>;
  /** The price list of the user. */
  readonly prices: string;
}

const test = plain.extend<object, { checked: Checked }>({
  checked: [
    async ({}, use) => {
      const folder = await mkdtemp(join(tmpdir(), 'tpulab-check-'));
      const [python, gate] = [join(folder, 'python'), join(folder, 'go')];
      const report = join(CHECKOUT, 'tests', 'preflight', 'report.json');
      const body = `#!/bin/sh
        echo 'compiling train_step for v5e-8 (3 of 4)' >&2
        while ! test -e '${gate}'; do sleep 0.1; done
        tr -d '\\n' < '${report}' | sed 's|/home/me/.config|${folder}|'; echo; exit 1`;
      await writeFile(python, body);
      await chmod(python, 0o755);
      const nodes = [
        ['small', 'v5litepod-8'],
        ['train', 'v6e-8'],
        ['big', 'v5p-8'],
        ['other', 'v5litepod-16']
      ].map(([name, acceleratorType]) => ({
        name: `projects/my-project/locations/us-east5-b/nodes/${name}`,
        ...{ acceleratorType, state: 'READY' }
      }));
      await writeFile(
        join(folder, 'gcloud'),
        `#!/bin/sh
        case "$*" in
          *get-value*) echo my-project ;;
          *tpu-vm*list*) echo '${JSON.stringify(nodes)}' ;;
          *) echo '[]' ;;
        esac`
      );
      await chmod(join(folder, 'gcloud'), 0o755);
      const gateway = await SessionGateway.start({
        TPULAB_AOT_PYTHON: python,
        PATH: `${folder}:${process.env['PATH']}`
      });
      const prices = join(folder, 'tpulab', 'prices.toml');
      await use({ gateway, prices, go: () => writeFile(gate, ''), hold: () => rm(gate, { force: true }) });
      await gateway.stop();
      await rm(folder, { recursive: true });
    },
    { scope: 'worker', timeout: 300_000 }
  ]
});

async function preflight(page: Page): Promise<Locator> {
  await page.getByRole('button', { name: 'Open panel' }).click();
  const panel = page.getByRole('complementary', { name: 'Run and devices' });
  const section = panel.getByRole('region', { name: 'Pre-flight', exact: true });
  await section.getByRole('button', { name: 'Pre-flight', expanded: false }).click();
  return section;
}

test('checks the notebook, can be stopped, and leads to the cells', async ({ page, checked, browser }) => {
  const { gateway, go, hold } = checked;
  await hold();
  const complaints = complaintsOf(page);
  await gateway.write('train.ipynb', notebookText(CELLS.map(source => source.replace('40', '41'))));
  await open(page, gateway, 'train.ipynb');
  const section = await preflight(page);
  await expect(section.getByRole('button', { name: 'Check this notebook' })).toBeVisible();

  // An unsaved change is a part of the check.
  await cell(page, 3).locator('.cm-content').click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(CELLS[3] ?? '');
  await section.getByRole('button', { name: 'Check this notebook' }).click();
  await expect(section.getByRole('status')).toHaveText('compiling train_step for v5e-8');
  await expect(section.getByRole('progressbar')).toHaveAttribute('aria-valuenow', '75');
  expect(await gateway.read('train.ipynb')).toContain('(64, 64, 40)');
  await checkAccessibility(page, section);
  await section.getByRole('button', { name: 'Stop' }).click();
  await expect(section.getByRole('status')).toHaveText('The check was stopped.');

  // By keyboard, and the page is closed meanwhile.
  await section.getByRole('textbox', { name: 'Machine types' }).focus();
  await page.keyboard.press('Enter');
  await expect(section.getByRole('progressbar')).toBeVisible();
  await page.reload();
  await expect(page.locator('.jp-CodeCell .cm-content').first()).toBeVisible();
  const again = await preflight(page);
  await expect(again.getByRole('progressbar')).toBeVisible();
  await go();
  await expect(again.getByRole('status')).toHaveText('Fits v5p-8, 7x-8. Tight on v6e-8. Does not fit v5e-8.');
  const table = again.getByRole('region', { name: 'Memory per chip' });
  await expect(table.getByRole('row', { name: /^wide_step/ }).getByRole('cell')).toHaveText([
    'does not fit 20.3',
    'tight 30.3',
    'fits 20.3',
    'fits 80.5'
  ]);
  await expect(
    table
      .getByRole('row', { name: /^1,000 steps from/ })
      .getByRole('cell')
      .last()
  ).toHaveText('unknown');
  const findings = again.getByRole('list', { name: 'Findings' }).getByRole('listitem');
  await expect(findings).toHaveCount(5);
  await expect(findings.first()).toHaveText(
    /^Error: wide_step does not fit v5e-8: 20.3 of 15.75 GiB per chip/
  );
  await findings.nth(2).getByRole('button', { name: 'cell [4]:4' }).press('Enter');
  await expect(cell(page, 3)).toHaveClass(/jp-mod-active/);
  await expect
    .poll(() =>
      page.evaluate(() => {
        const node = document.getSelection()?.anchorNode ?? null;
        return (node instanceof Element ? node : node?.parentElement)?.closest('.cm-line')?.textContent;
      })
    )
    .toContain('state = train_step');
  await expect(again).not.toContainText('The code has changed');
  expect(complaints).toEqual([]);

  // Which of the project's machines it fits.
  await command(page, 'Connect to a TPU…');
  const dialog = page.getByRole('dialog', { name: /Connect to a TPU/ });
  const rights = dialog.getByRole('listbox', { name: 'TPU VMs' }).getByRole('option');
  await expect(rights).toHaveText([
    /^small.*v5litepod-8.*does not fit$/,
    /^train.*v6e-8.*tight$/,
    /^big.*v5p-8.*[^t] ?fits$/,
    /^other.*v5litepod-16.*unknown$/
  ]);
  await expect(dialog).toContainText('Fits: the notebook as it was checked');
  await checkAccessibility(page, dialog);
  await page.keyboard.press('Escape');

  // In either theme, and on a phone.
  for (const theme of ['Dark theme', 'Light theme']) {
    await page.getByRole('button', { name: 'More', exact: true }).click();
    await page.getByRole('menuitemradio', { name: theme }).click();
    await checkAccessibility(page, again);
  }
  await page.setViewportSize({ width: 360, height: 740 });
  const width = await again.evaluate(element => element.scrollWidth - element.clientWidth);
  expect(width).toBe(0);
  await checkAccessibility(page, again);

  // A reader is not offered what a reader may not do.
  const link = await fetch(new URL('bridge/v1/links', gateway.url), {
    method: 'POST',
    headers: { authorization: `token ${gateway.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ path: 'train.ipynb', expiresInHours: 1 })
  });
  const { token } = (await link.json()) as { token: string };
  const reader = await openElsewhere(browser, `${gateway.url}session/train.ipynb#token=${token}`);
  await reader.getByRole('button', { name: 'Open panel' }).click();
  const panel = reader.getByRole('complementary', { name: 'Run and devices' });
  await expect(panel.getByRole('button', { name: /^Devices/ })).toBeVisible();
  await expect(panel.getByRole('region', { name: 'Pre-flight' })).toHaveCount(0);
  await reader.context().close();
});

test('notices when the code has changed since the check', async ({ page, checked }) => {
  const { gateway, go } = checked;
  await go();
  await gateway.write('edited.ipynb', notebookText(CELLS));
  await open(page, gateway, 'edited.ipynb');
  const section = await preflight(page);
  await section.getByRole('button', { name: 'Check this notebook' }).click();
  await expect(section.getByRole('status')).toContainText('Does not fit v5e-8.');
  await gateway.write('edited.ipynb', notebookText([...CELLS, 'x = 1']));
  await section.getByRole('button', { name: 'Pre-flight', expanded: true }).click();
  await section.getByRole('button', { name: 'Pre-flight', expanded: false }).click();
  await expect(section).toContainText('The code has changed since this check.');
});

test('opens wide, exports the report, and changes prices', async ({ page, checked }) => {
  const { gateway, go, prices } = checked;
  await go();
  const complaints = complaintsOf(page);
  await gateway.write('wide.ipynb', notebookText(CELLS));
  await open(page, gateway, 'wide.ipynb');
  const section = await preflight(page);
  await section.getByRole('checkbox', { name: /^Keep the compiled programs/ }).check();
  await section.getByRole('button', { name: 'Check this notebook' }).click();
  await expect(section.getByRole('status')).toContainText('Does not fit v5e-8.');

  await section.getByRole('button', { name: 'Open wide' }).click();
  const wide = page.getByRole('dialog', { name: 'Pre-flight of wide.ipynb' });
  const row = wide.getByRole('row', { name: /^wide_step/ });
  await expect(row.getByRole('cell').first()).toHaveText(
    /^does not fit 20\.34\.59 too much · compiled in 0\.1 s$/
  );
  await expect(row.getByRole('cell').nth(1)).toHaveText(/^tight 30\.30\.9\d+ free · compiled in .* s$/);
  const box = (await wide.boundingBox())!;
  expect(box.width).toBeGreaterThan(page.viewportSize()!.width * 0.8);
  await checkAccessibility(page, wide);
  await page.keyboard.press('Escape');
  await expect(wide).toHaveCount(0);
  await section.getByRole('button', { name: 'Open wide' }).click();
  await wide.getByRole('button', { name: 'cell [4]:4' }).first().click();
  await expect(wide).toHaveCount(0);
  await expect(cell(page, 3)).toHaveClass(/jp-mod-active/);

  const exported = async (kind: string): Promise<[name: string, text: string]> => {
    const download = page.waitForEvent('download');
    await section.getByRole('button', { name: `Export ${kind}` }).click();
    const file = await download;
    return [file.suggestedFilename(), await readFile(await file.path(), 'utf8')];
  };
  const [jsonName, json] = await exported('JSON');
  expect(jsonName).toBe('wide.ipynb.check.json');
  expect(JSON.parse(json)).toMatchObject({ format: 1, source: 'small.ipynb', jax: '0.10.2' });
  const [name, markdown] = await exported('Markdown');
  expect(name).toBe('wide.ipynb.check.md');
  expect(markdown).toMatch(
    /^\| `wide_step` cell \[5\]:\d+ \| 20.3 does not fit \| 30.3 tight \| 20.3 fits \| 80.5 fits \|$/m
  );
  expect(markdown).toMatch(/^- \*\*error\*\* cell \[5\]:\d+ wide_step does not fit v5e-8/m);

  const costs = section
    .getByRole('row', { name: /^1,000 steps from/ })
    .getByRole('cell')
    .last();
  await expect(costs).toHaveText('unknown');
  await section.getByRole('button', { name: 'Edit prices' }).click();
  const form = section.getByRole('form', { name: 'Prices' });
  await expect(form.getByRole('spinbutton', { name: 'v5e' })).toHaveValue('1.2');
  await form.getByRole('spinbutton', { name: '7x' }).fill('12');
  await checkAccessibility(page, section);
  await form.getByRole('button', { name: 'Save prices' }).click();
  await expect(costs).toHaveText(/^(< )?\$\d/);
  await expect(form).toHaveCount(0);
  expect(await readFile(prices, 'utf8')).toContain('7x = 12');
  await page.setViewportSize({ width: 360, height: 740 });
  await section.getByRole('button', { name: 'Open wide' }).click();
  await checkAccessibility(page, wide);
  expect(complaints).toEqual([]);
});

test('a real check of the same cells gives the recorded answer', async ({ page }) => {
  test.skip(!existsSync(COMPILER), '`npm run test:aot` makes the environment with the TPU compiler');
  const folder = await mkdtemp(join(tmpdir(), 'tpulab-check-'));
  const python = join(folder, 'python');
  const agent = join(CHECKOUT, 'kernel-agent', 'src');
  await writeFile(python, `#!/bin/sh\nPYTHONPATH='${agent}' exec '${COMPILER}' "$@"\n`);
  await chmod(python, 0o755);
  const gateway = await SessionGateway.start({ TPULAB_AOT_PYTHON: python });
  try {
    await gateway.write('real.ipynb', notebookText(CELLS));
    await open(page, gateway, 'real.ipynb');
    const section = await preflight(page);
    await section.getByRole('textbox', { name: 'Machine types' }).fill('v5e-8');
    await section.getByRole('button', { name: 'Check this notebook' }).click();
    await expect(section.getByRole('button', { name: 'Check again' })).toBeVisible({ timeout: 400_000 });
    await expect(section.getByRole('status')).toHaveText('Does not fit v5e-8.');
    const recorded = JSON.parse(
      await readFile(join(CHECKOUT, 'tests', 'preflight', 'report.json'), 'utf8')
    ) as { findings: { message: string; machine: string | null }[] };
    const findings = section.getByRole('list', { name: 'Findings' });
    for (const { message } of recorded.findings.filter(
      ({ machine }) => machine === null || machine === 'v5e-8'
    ))
      await expect(findings).toContainText(message);
  } finally {
    await gateway.stop();
    await rm(folder, { recursive: true });
  }
});

inLab('offers the compiler in JupyterLab, with its size', async ({ lab, page }) => {
  await writeFile(join(lab.rootDir, 'check.ipynb'), notebookText(CELLS));
  await openNotebook(page, 'check.ipynb');
  const panel = new TPULabPanel(page);
  await panel.open();
  const section = await panel.section('Pre-flight');
  await expect(section).toContainText(
    'Needs the TPU compiler once: 1.9 GiB on disk, in the environment aot.'
  );
  await expect(section.getByRole('button', { name: 'Install and check' })).toBeVisible();
  await checkAccessibility(page, section);
});
