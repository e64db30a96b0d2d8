/** What other people's packages draw, and where it is looked for. */
import type { Locator, Page } from '@playwright/test';

export interface Shown {
  readonly name: string;
  readonly code: string;
  /** What is seen in the output of the last line. */
  readonly seen: string;
  /** In `npm test` too: `environments/test-jax` has it. */
  readonly isQuick?: true;
}

const FRAME =
  'import pandas as pd\nframe = pd.DataFrame({"a": range(50), "b": [x * x for x in range(50)]})\n';
export const PACKAGES: readonly Shown[] = [
  {
    name: 'plotly',
    isQuick: true,
    code: 'import plotly.graph_objects as go\ngo.Figure(go.Scatter(x=[1, 2, 3], y=[3, 1, 2])).show()',
    seen: '.main-svg'
  },
  {
    name: 'plotly, FigureWidget',
    isQuick: true,
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
    isQuick: true,
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
    isQuick: true,
    code: 'from rich.progress import track\nimport time\nfor i in track(range(10)):\n    time.sleep(0.05)',
    seen: 'text=100%'
  },
  {
    name: 'tqdm, notebook form',
    isQuick: true,
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
    isQuick: true,
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
export async function isShown(page: Page, at: number, { seen }: Shown): Promise<boolean> {
  const output = page.locator('.jp-CodeCell').nth(at).locator('.jp-OutputArea').first();
  // Not by Playwright, which waits for a page that stands still: frames that draw let it wait long.
  await output.evaluate(element => element.scrollIntoView());
  const inFrame = output.locator('.tpl-OutputFrame').last().contentFrame().locator(seen);
  return Promise.any(
    [output.locator(seen), inFrame].map(async place => {
      if (!(await visible(place))) throw new Error('not seen');
      return true;
    })
  ).catch(() => false);
}
