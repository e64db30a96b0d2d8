/**
 * What other people's packages show, in the session page, in JupyterLab with the extension and in a stock JupyterLab, without a network:
 * `npm run test:outputs`. What was seen becomes docs/outputs-shown.md.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Browser, expect, type Locator, type Page, test } from '@playwright/test';
import { LabServer } from '../lab/lab-server.js';
import { CHECKOUT, LAB_ENV } from '../lab/paths.js';
import { SessionGateway } from '../lab/session-gateway.js';
import { StockLab } from '../stock-lab/stock-lab.js';
import { notebookText } from './notebook-file.js';

interface Shown {
  readonly name: string;
  readonly code: string;
  /** What is seen in the output of the last line. */
  readonly seen: string;
}

const FRAME =
  'import pandas as pd\nframe = pd.DataFrame({"a": range(50), "b": [x * x for x in range(50)]})\n';
const PACKAGES: readonly Shown[] = [
  {
    name: 'plotly',
    code: 'import plotly.express as px\npx.scatter(x=[1, 2, 3], y=[3, 1, 2], title="first").show()',
    seen: '.main-svg'
  },
  {
    name: 'plotly, FigureWidget',
    code: 'import plotly.graph_objects as go\ngo.FigureWidget(go.Bar(y=[2, 3, 1]))',
    seen: '.main-svg'
  },
  {
    name: 'altair, JupyterChart',
    code: `${FRAME}import altair as alt\nalt.JupyterChart.enable_offline()\nalt.JupyterChart(alt.Chart(frame).mark_bar().encode(x="a", y="b"))`,
    seen: 'canvas, svg.marks'
  },
  {
    name: 'bokeh, INLINE',
    code: 'from bokeh.io import output_notebook, show\nfrom bokeh.resources import INLINE\nfrom bokeh.plotting import figure\noutput_notebook(INLINE, hide_banner=True)\np = figure(height=200)\np.line([1, 2, 3], [3, 1, 2])\nshow(p)',
    seen: 'canvas'
  },
  {
    name: 'ipympl',
    code: '%matplotlib widget\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(4, 2))\nax.plot(range(20))\nplt.show()',
    seen: '.jupyter-matplotlib-canvas-div canvas'
  },
  {
    name: 'anywidget',
    code: 'import anywidget\nclass Hello(anywidget.AnyWidget):\n    _esm = "export default { render({ el }) { el.innerHTML = \'<b id=hello>hello</b>\' } }"\nHello()',
    seen: '#hello'
  },
  {
    name: 'bqplot',
    code: 'import bqplot.pyplot as bp\nbp.figure(title="bq")\nbp.plot([1, 2, 3], [3, 1, 2])\nbp.show()',
    seen: '.bqplot path.line, .bqplot canvas'
  },
  {
    name: 'ipydatagrid',
    code: `${FRAME}from ipydatagrid import DataGrid\nDataGrid(frame, layout={"height": "150px"})`,
    seen: 'canvas'
  },
  {
    name: 'k3d',
    code: 'import k3d, numpy as np\nplot = k3d.plot()\nplot += k3d.points(np.random.rand(50, 3).astype("float32"), point_size=0.05)\nplot',
    seen: 'canvas'
  },
  {
    name: 'itables',
    code: `${FRAME}import itables\nitables.init_notebook_mode(all_interactive=False, connected=False)\nitables.show(frame)`,
    seen: '.dt-container, .dataTables_wrapper'
  },
  {
    name: 'rich, progress',
    code: 'from rich.progress import track\nimport time\nfor i in track(range(10)):\n    time.sleep(0.05)',
    seen: 'text=100%'
  },
  {
    name: 'tqdm, notebook form',
    code: 'from tqdm.auto import tqdm\nfor i in tqdm(range(3), desc="outer"):\n    for j in tqdm(range(5), desc="inner", leave=False):\n        pass',
    seen: 'text=3/3'
  },
  {
    name: 'great_tables',
    code: `${FRAME}from great_tables import GT\nGT(frame.head(3))`,
    seen: 'table.gt_table'
  },
  {
    name: 'seaborn',
    code: `%matplotlib inline\n${FRAME}import seaborn as sns\nsns.lineplot(frame, x="a", y="b");`,
    seen: 'img'
  },
  { name: 'sympy', code: 'import sympy\nsympy.sqrt(sympy.Symbol("x"))', seen: 'mjx-container' },
  {
    name: 'ipywidgets, interact',
    code: 'from ipywidgets import interact\n@interact(x=(0, 10))\ndef square(x=3):\n    print("square", x * x)',
    seen: 'text=square 9'
  },
  {
    name: 'JSON',
    code: 'from IPython.display import JSON\nJSON({"deep": [1, 2]})',
    seen: 'text=deep'
  },
  {
    name: 'Vega-Lite as data',
    code: 'display({"application/vnd.vegalite.v6+json": {"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"x": {"field": "a", "type": "quantitative"}}}}, raw=True)',
    seen: '.vega-embed canvas, .vega-embed svg'
  }
];

const SHELLS = ['session page', 'JupyterLab with TPULab', 'JupyterLab'] as const;
type Shell = (typeof SHELLS)[number];
const results = new Map<string, Map<Shell, boolean>>();
const PAGE = join(CHECKOUT, 'docs', 'outputs-shown.md');
const FILE = 'packages.ipynb';
const NOTEBOOK = notebookText([...PACKAGES.map(({ code }) => code), 'print("all", "was run")'], 'python3');
/** What does not come in this time after everything was run does not come. */
const WAIT_MS = 20_000;

async function visible(where: Locator): Promise<boolean> {
  return where
    .first()
    .waitFor({ state: 'visible', timeout: WAIT_MS })
    .then(
      () => true,
      () => false
    );
}

/** In the page, or in the frame in which the session page shows it. */
async function isShown(page: Page, at: number, { seen }: Shown): Promise<boolean> {
  const output = page.locator('.jp-CodeCell').nth(at).locator('.jp-OutputArea').first();
  await output.scrollIntoViewIfNeeded();
  const inFrame = output.locator('.tpl-OutputFrame').last().contentFrame().locator(seen);
  return Promise.any(
    [output.locator(seen), inFrame].map(async place => {
      if (!(await visible(place))) throw new Error('not seen');
      return true;
    })
  ).catch(() => false);
}

async function look(page: Page, shell: Shell): Promise<void> {
  await expect(page.getByText('all was run')).toBeVisible({ timeout: 240_000 });
  for (const [at, shown] of PACKAGES.entries()) {
    const found = results.get(shown.name) ?? new Map<Shell, boolean>();
    results.set(shown.name, found.set(shell, await isShown(page, at, shown)));
  }
}

async function newPage(browser: Browser): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  // Nothing from the network, wherever this runs.
  await page.route(/^https:/, route => route.abort());
  return page;
}

test.describe.configure({ mode: 'serial' });

test('the session page', async ({ browser }) => {
  const gateway = await SessionGateway.start();
  try {
    await gateway.write(FILE, NOTEBOOK);
    const page = await newPage(browser);
    await page.goto(gateway.link(FILE));
    await expect(page.getByRole('button', { name: /^Runtime: .* connected, / })).toBeVisible();
    await page.getByRole('button', { name: 'Run all' }).click();
    await look(page, 'session page');
    await page.context().close();
  } finally {
    await gateway.stop();
  }
});

const runAllInLab = (page: Page): Promise<void> =>
  page.evaluate(async () => {
    const { jupyterapp } = globalThis as unknown as {
      jupyterapp: { started: Promise<void>; commands: { execute(id: string): Promise<void> } };
    };
    await jupyterapp.started;
    void jupyterapp.commands.execute('notebook:run-all-cells');
  });

/** Case W01: state that names code, in a notebook that nobody here has trusted. */
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

test('JupyterLab with the extension', async ({ browser }) => {
  const lab = await LabServer.start({ galata: false });
  try {
    await mkdir(lab.rootDir, { recursive: true });
    await writeFile(join(lab.rootDir, FILE), NOTEBOOK);
    const page = await newPage(browser);
    await page.goto(lab.loginUrl.replace('/lab', `/lab/tree/${FILE}`));
    await expect(page.locator('.jp-CodeCell').first()).toBeVisible();
    await runAllInLab(page);
    await look(page, 'JupyterLab with TPULab');
    await writeFile(join(lab.rootDir, 'strange.ipynb'), STRANGE);
    await page.goto(`${lab.url}/lab/tree/strange.ipynb`);
    // What JupyterLab says once it has looked for the model everywhere.
    await expect(page.getByText('model not found')).toBeVisible();
    expect(await page.evaluate('globalThis.__ran')).toBeUndefined();
    await page.context().close();
  } finally {
    await lab.stop();
  }
});

test('a stock JupyterLab', async ({ browser }) => {
  await using lab = await StockLab.start('gateway');
  await writeFile(join(lab.rootDir, FILE), NOTEBOOK);
  const page = await newPage(browser);
  await page.goto(lab.notebookUrl(FILE));
  await expect(page.locator('.jp-CodeCell').first()).toBeVisible();
  await runAllInLab(page);
  await look(page, 'JupyterLab');
  await page.context().close();
});

test('nothing is shown in JupyterLab alone', async () => {
  const versions = await readFile(join(LAB_ENV, 'versions.txt'), 'utf8').catch(() => '');
  const table = [
    `| output | ${SHELLS.join(' | ')} |`,
    '| --- | --- | --- | --- |',
    ...[...results].map(
      ([name, shown]) =>
        `| ${name} | ${SHELLS.map(shell => (shown.get(shell) === undefined ? 'not tried' : shown.get(shell) === true ? 'shown' : '**no**')).join(' | ')} |`
    )
  ];
  await writeFile(
    PAGE,
    [
      '# What is shown where',
      '',
      '`npm run test:outputs` writes this page. It runs one notebook with these packages in the session page, in JupyterLab with the',
      'extension and in a stock JupyterLab, in Chromium, without a network, and looks for what each package draws.',
      '',
      ...table,
      '',
      ...(versions === '' ? [] : [`Versions: ${versions.trim()}.`, ''])
    ].join('\n')
  );
  const worse = [...results].filter(
    ([, shown]) => shown.get('JupyterLab') === true && SHELLS.some(shell => shown.get(shell) === false)
  );
  expect(worse.map(([name]) => name)).toEqual([]);
});
