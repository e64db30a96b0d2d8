/** Charts stored as data for a library: Plotly, Vega and Vega-Lite. The page ships the libraries and loads them with the first chart. */
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import plotlyAddress from 'plotly.js-dist-min/plotly.min.js?url';
import type { FrameContent } from '../frame/messages.js';
import vegaAddress from '../frame/vega.ts?frame';
import { frameScript } from './output-frame.js';

const PLOTLY = 'application/vnd.plotly.v1+json';
const VEGA = ['v6', 'v5', 'v4', 'v3'].map(version => `application/vnd.vega.${version}+json`);
const VEGA_LITE = ['v6', 'v5', 'v4', 'v3', 'v2'].map(version => `application/vnd.vegalite.${version}+json`);

export const CHARTS: readonly string[] = [PLOTLY, ...VEGA_LITE, ...VEGA];

const DRAW_PLOTLY = `{
const { content, port } = tpulabFrame;
delete globalThis.tpulabFrame;
const draw = async ({ data = [], layout = {}, config, frames }) => {
  await Plotly.newPlot('chart', data, layout, { responsive: true, ...config });
  if (frames) await Plotly.addFrames('chart', frames);
};
draw(content.data).catch(error => port.postMessage({ kind: 'failed', message: String(error) }));
}`;

export async function chartContent(
  type: string,
  bundle: ReadonlyPartialJSONObject,
  css: string
): Promise<FrameContent> {
  const html = '<div id="chart"></div>';
  if (type === PLOTLY) {
    const height = (bundle[type] as { layout?: { height?: unknown } } | undefined)?.layout?.height;
    const place = `#chart { height: ${typeof height === 'number' ? height : 450}px }`;
    const scripts = [await frameScript(plotlyAddress), DRAW_PLOTLY];
    return { html, css: `${css} ${place}`, scripts, data: bundle[type] };
  }
  const options = { mode: VEGA.includes(type) ? 'vega' : 'vega-lite', actions: false };
  return {
    html,
    css: `${css} .vega-embed { width: 100% }`,
    scripts: [await frameScript(vegaAddress)],
    data: { spec: bundle[type], options }
  };
}
