/** The outputs of other people's packages, and where to find them. */
import type { Locator, Page } from '@playwright/test';

export interface Shown {
  readonly name: string;
  readonly code: string;
  /** Visible in the output of the last line. */
  readonly seen: string;
  /** Some of its texts have their own colours, which are faint in the dark theme, in JupyterLab too. */
  readonly hasOwnColours?: true;
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
    // For a figure that a later cell closes, the session page shows the output's picture.
    seen: '.jupyter-matplotlib-canvas-div canvas, img'
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
    hasOwnColours: true,
    code: 'from rich.progress import track\nimport time\nfor i in track(range(10)):\n    time.sleep(0.05)',
    seen: 'text=100%'
  },
  {
    name: 'tqdm, notebook form',
    isQuick: true,
    code: 'from tqdm.auto import tqdm\nfor i in tqdm(range(3), desc="outer"):\n    for j in tqdm(range(5), desc="inner", leave=False):\n        pass',
    seen: 'text=3/3'
  },
  { name: 'pandas', code: `${FRAME}frame.head(3).style.set_caption("frame")`, seen: 'table caption' },
  {
    name: 'great_tables',
    code: `${FRAME}from great_tables import GT\nGT(frame.head(3))`,
    seen: 'table.gt_table'
  },
  {
    name: 'seaborn',
    code: `%matplotlib inline\n${FRAME}import matplotlib.pyplot as plt, seaborn as sns\nplt.figure()\nsns.lineplot(frame, x="a", y="b");`,
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

/** An output that does not appear within this time after the run counts as missing. */
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

/** Where an output is shown: in the page, or in a frame of the session page; null: nowhere. */
async function shownIn(page: Page, at: number, { seen }: Shown): Promise<Locator | null> {
  const output = page.locator('.jp-CodeCell').nth(at).locator('.jp-OutputArea').first();
  // Not with Playwright, which waits for a stable page: frames that draw delay it for long.
  await output.evaluate(element => element.scrollIntoView());
  const inFrame = output.locator('.tpl-OutputFrame').last().contentFrame().locator('body');
  return Promise.any(
    [output, inFrame].map(async place => {
      if (!(await visible(place.locator(seen)))) throw new Error('not seen');
      return place;
    })
  ).catch(() => null);
}

export async function isShown(page: Page, at: number, shown: Shown): Promise<boolean> {
  return (await shownIn(page, at, shown)) !== null;
}

/** 'faint': it is shown, but some of its texts lack contrast with their background. */
export async function isReadable(page: Page, at: number, shown: Shown): Promise<boolean | 'faint'> {
  const place = await shownIn(page, at, shown);
  const faint = (await place?.evaluate(faintTexts)) ?? [];
  if (faint.length > 0) process.stdout.write(`${shown.name}: ${JSON.stringify(faint.slice(0, 20))}\n`);
  return place !== null && (faint.length === 0 || 'faint');
}

/**
 * Runs in the page: finds texts with less contrast than large letters need (WCAG 2, 1.4.3). Text on pictures and canvases is not
 * checked.
 */
function faintTexts(root: Element): string[] {
  const LEAST = 3;
  type Colour = [number, number, number, number];
  const parse = (text: string): Colour => {
    const [r = 0, g = 0, b = 0, a = 1] = (text.match(/[\d.]+/g) ?? []).map(Number);
    if (text.startsWith('color(srgb')) return [255 * r, 255 * g, 255 * b, a];
    return text === 'transparent' || text === 'none' ? [0, 0, 0, 0] : [r, g, b, a];
  };
  const over = ([r, g, b, a]: Colour, below: Colour): Colour => [
    r * a + below[0] * (1 - a),
    g * a + below[1] * (1 - a),
    b * a + below[2] * (1 - a),
    1
  ];
  const light = (colour: Colour): number => {
    const [r = 0, g = 0, b = 0] = colour.slice(0, 3).map(value => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element: Element): Colour => {
    const layers: Colour[] = [];
    for (let at: Element | null = element; at !== null; at = at.parentElement) {
      layers.push(parse(getComputedStyle(at).backgroundColor));
      // A chart's first drawn elements are behind the rest.
      const sheet = at.matches('.main-svg') ? at.querySelector('.bg') : null;
      if (sheet !== null) layers.push(parse(getComputedStyle(sheet).fill));
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const faint: string[] = [];
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
    const element = node.parentElement;
    const text = node.textContent?.trim() ?? '';
    if (element === null || text === '' || !element.checkVisibility({ opacityProperty: true })) continue;
    // Disabled elements may be faint.
    if (element.closest('script, style, mjx-assistive-mml, [aria-hidden="true"], .disabled') !== null)
      continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const front = over(parse(element instanceof SVGElement ? style.fill : style.color), back);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a) as [number, number];
    if ((high + 0.05) / (low + 0.05) < LEAST)
      faint.push(`${text} (${front.map(Math.round).join(' ')} on ${back.map(Math.round).join(' ')})`);
  }
  return faint;
}
