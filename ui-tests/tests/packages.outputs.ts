/**
 * The outputs of other people's packages, in the session page in both themes, in JupyterLab with the extension and in a stock one, offline:
 * `npm run test:outputs`. The results become docs/outputs-shown.md.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Browser, expect, type Page, test } from '@playwright/test';
import { LabServer } from '../lab/lab-server.js';
import { CHECKOUT, LAB_ENV } from '../lab/paths.js';
import { SessionGateway } from '../lab/session-gateway.js';
import { StockLab } from '../stock-lab/stock-lab.js';
import { currentKernel, runInKernel } from './lab-page.js';
import { notebookText } from './notebook-file.js';
import {
  remotePictures,
  serveRemotePicture,
  checkRemotePictures,
  checkOrdinary,
  ordinaryNotebook
} from './ordinary-outputs.js';
import { isReadable, isShown, PACKAGES } from './other-packages.js';

const SHELLS = ['session page', 'session page, dark theme', 'JupyterLab with TPULab', 'JupyterLab'] as const;
type Shell = (typeof SHELLS)[number];
type Found = boolean | 'faint';
const results = new Map<string, Map<Shell, Found>>();
const PAGE = join(CHECKOUT, 'docs', 'outputs-shown.md');
const FILE = 'packages.ipynb';
const NOTEBOOK = notebookText([...PACKAGES.map(({ code }) => code), 'print("all", "was run")'], 'python3');

async function check(
  page: Page,
  shell: Shell,
  isThere: (...args: Parameters<typeof isShown>) => Promise<Found> = isShown
): Promise<void> {
  await expect(page.getByText('all was run')).toBeVisible({ timeout: 240_000 });
  for (const [at, shown] of PACKAGES.entries()) {
    const found = results.get(shown.name) ?? new Map<Shell, Found>();
    results.set(shown.name, found.set(shell, await isThere(page, at, shown)));
  }
}

/** The rows as a Markdown table that `npm run check -- format` leaves unchanged. */
function table(rows: readonly (readonly string[])[]): string[] {
  const [head = []] = rows;
  const widths = head.map((_, at) => Math.max(...rows.map(row => row[at]?.length ?? 0)));
  const line = (row: readonly string[], fill = ' '): string =>
    `| ${row.map((text, at) => text.padEnd(widths[at] ?? 0, fill)).join(' | ')} |`;
  const [first = '', ...rest] = rows.map(row => line(row));
  return [
    first,
    line(
      head.map(() => '---'),
      '-'
    ),
    ...rest
  ];
}

async function newPage(browser: Browser, colorScheme: 'light' | 'dark' = 'light'): Promise<Page> {
  const page = await (await browser.newContext({ colorScheme })).newPage();
  // Nothing from the network, wherever this runs.
  await page.route(/^https:/, route => route.abort());
  return page;
}

async function hasKernel(page: Page): Promise<void> {
  await expect(page.locator('.jp-CodeCell').first()).toBeVisible();
  await expect.poll(() => currentKernel(page)).toMatchObject({ status: 'idle' });
}

/** Waits for the kernel first: JupyterLab asks the user to choose one if a notebook is run without a kernel. */
async function runAllInLab(page: Page): Promise<void> {
  await hasKernel(page);
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
}

test.describe('what is shown', () => {
  test.describe.configure({ mode: 'serial' });

  for (const theme of ['light', 'dark'] as const)
    test(`the session page, ${theme} theme`, async ({ browser }) => {
      const gateway = await SessionGateway.start();
      try {
        await gateway.write(FILE, NOTEBOOK);
        const page = await newPage(browser, theme);
        await page.goto(gateway.link(FILE));
        await expect(page.getByRole('button', { name: /^Runtime: .* connected, / })).toBeVisible();
        await page.getByRole('button', { name: 'Run all' }).click();
        await check(page, theme === 'light' ? 'session page' : 'session page, dark theme', isReadable);
        await page.context().close();
      } finally {
        await gateway.stop();
      }
    });

  test('JupyterLab with the extension', async ({ browser }) => {
    const lab = await LabServer.start({ galata: false });
    try {
      await mkdir(lab.rootDir, { recursive: true });
      await writeFile(join(lab.rootDir, FILE), NOTEBOOK);
      const page = await newPage(browser);
      await page.goto(lab.loginUrl.replace('/lab', `/lab/tree/${FILE}`));
      await runAllInLab(page);
      await check(page, 'JupyterLab with TPULab');
      await page.context().close();
    } finally {
      await lab.stop();
    }
  });

  test('a stock JupyterLab', async ({ browser }) => {
    await using lab = await StockLab.start('none');
    await writeFile(join(lab.rootDir, FILE), NOTEBOOK);
    const page = await newPage(browser);
    await page.goto(lab.notebookUrl(FILE));
    await runAllInLab(page);
    await check(page, 'JupyterLab');
    await page.context().close();
  });

  test('the session page shows everything, and JupyterLab with the extension shows all that stock JupyterLab shows', async () => {
    const versions = await readFile(join(LAB_ENV, 'versions.txt'), 'utf8').catch(() => '');
    const resultText = (shown: Found | undefined): string =>
      shown === undefined
        ? 'not tried'
        : shown === 'faint'
          ? 'shown, with faint text'
          : shown
            ? 'shown'
            : '**no**';
    await writeFile(
      PAGE,
      [
        '# What is shown where',
        '',
        '`npm run test:outputs` writes this page. It runs one notebook with these packages in the session page, in JupyterLab with the',
        'extension and in a stock JupyterLab, in Chromium, without a network, and looks for what each package draws. In the session page',
        'it also measures, in both themes, whether every text stands out from its background.',
        '',
        ...table([
          ['output', ...SHELLS],
          ...[...results].map(([name, shown]) => [name, ...SHELLS.map(shell => resultText(shown.get(shell)))])
        ]),
        '',
        'Charts that need a library of the network (Bokeh and Altair by default, folium) name its address in a line instead;',
        '[the session page](session.md) says what helps.',
        '',
        ...(versions === '' ? [] : [`Versions: ${versions.trim()}.`, ''])
      ].join('\n')
    );
    const missing = PACKAGES.filter(({ name, hasOwnColours }) =>
      SHELLS.some(shell => {
        const found = results.get(name)?.get(shell);
        const isOurs = shell.startsWith('session page');
        return (
          (found === false && (isOurs || results.get(name)?.get('JupyterLab') === true)) ||
          (found === 'faint' && hasOwnColours !== true)
        );
      })
    );
    expect(missing.map(({ name }) => name)).toEqual([]);
  });
});

/** State that names code, in an untrusted notebook. */
const STRANGE = JSON.stringify({
  cells: [
    {
      cell_type: 'code',
      id: 'strange',
      metadata: { trusted: true },
      execution_count: 1,
      source: 'Stranger()',
      outputs: [
        {
          output_type: 'execute_result',
          execution_count: 1,
          metadata: {},
          data: {
            'application/vnd.jupyter.widget-view+json': {
              model_id: 'strange1',
              version_major: 2,
              version_minor: 0
            },
            'text/plain': 'Stranger()'
          }
        }
      ]
    }
  ],
  metadata: {
    kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' },
    widgets: {
      'application/vnd.jupyter.widget-state+json': {
        version_major: 2,
        version_minor: 0,
        state: {
          strange1: {
            model_name: 'AnyModel',
            model_module: 'anywidget',
            model_module_version: '~0.11.*',
            state: {
              _model_module: 'anywidget',
              _model_name: 'AnyModel',
              _model_module_version: '~0.11.*',
              _view_module: 'anywidget',
              _view_name: 'AnyView',
              _view_module_version: '~0.11.*',
              _anywidget_id: 'x.Y',
              _esm: 'globalThis.__ran = 1; export default { render({ el }) { el.textContent = "drawn by a stranger" } }',
              _css: ''
            }
          }
        }
      }
    }
  },
  nbformat: 4,
  nbformat_minor: 5
});

test('code in a strange notebook does not run when JupyterLab opens it', async ({ browser }) => {
  const lab = await LabServer.start({ galata: false });
  try {
    await mkdir(lab.rootDir, { recursive: true });
    await writeFile(join(lab.rootDir, 'strange.ipynb'), STRANGE);
    const page = await newPage(browser);
    await page.goto(lab.loginUrl.replace('/lab', '/lab/tree/strange.ipynb'));
    await expect(page.getByText('Stranger()')).toHaveCount(2);
    // JupyterLab's widget manager requests the kernel's state first, so the kernel's later answers arrive after the widgets of the file.
    await hasKernel(page);
    expect(await runInKernel(page, 'print("ready")')).toBe('ready\n');
    expect(await page.evaluate('globalThis.__ran')).toBeUndefined();
    await page.context().close();
  } finally {
    await lab.stop();
  }
});

test('JupyterLab with the extension shows ordinary outputs and pictures from the network', async ({
  browser
}) => {
  // session-outputs.spec.ts tests the same in the session page.
  const lab = await LabServer.start({ galata: false });
  try {
    await mkdir(lab.rootDir, { recursive: true });
    await writeFile(join(lab.rootDir, 'ordinary.ipynb'), ordinaryNotebook('bridge/python3'));
    await writeFile(join(lab.rootDir, 'far.ipynb'), remotePictures('python3'));
    const page = await newPage(browser);
    await serveRemotePicture(page);
    await page.goto(lab.loginUrl.replace('/lab', '/lab/tree/far.ipynb'));
    await runAllInLab(page);
    await checkRemotePictures(page, page.locator('.jp-CodeCell').nth(1));
    await page.goto(`${lab.loginUrl.replace('/lab', '/lab/tree/ordinary.ipynb')}&reset`);
    await runAllInLab(page);
    await checkOrdinary(page);
    await page.context().close();
  } finally {
    await lab.stop();
  }
});
