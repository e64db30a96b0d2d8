/**
 * Active outputs: scripts, charts and widgets. In a trusted cell they run in a frame of an opaque origin, which has no access to this
 * page; in an untrusted cell the other parts of the output are shown, with a note on how to run the active part.
 */
import { Panel } from '@lumino/widgets';
import type { CodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { htmlRendererFactory, type IOutputModel, type IRenderMime, MimeModel } from '@jupyterlab/rendermime';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import plotlyAddress from 'plotly.js-dist-min/plotly.min.js?url';
import type { FrameContent } from '../frame/messages.js';
import type { Files } from './files-of-notebook.js';
import { frameScript, OutputFrame, outputLine } from './output-frame.js';
import { drawnTogether, frameHtml, frameStyle, hasScripts, librariesOf } from './scripted-html.js';
import { trans } from '../text.js';
import vegaAddress from '../frame/vega.ts?frame';

/** Charts stored as data for a library: Plotly, Vega and Vega-Lite. The page ships the libraries and loads them with the first chart. */
const PLOTLY = 'application/vnd.plotly.v1+json';
const VEGA = ['v6', 'v5', 'v4', 'v3'].map(version => `application/vnd.vega.${version}+json`);
const VEGA_LITE = ['v6', 'v5', 'v4', 'v3', 'v2'].map(version => `application/vnd.vegalite.${version}+json`);

const CHARTS: readonly string[] = [PLOTLY, ...VEGA_LITE, ...VEGA];

const DRAW_PLOTLY = `{
const { content, port } = tpulabFrame;
delete globalThis.tpulabFrame;
const draw = async ({ data = [], layout = {}, config, frames }) => {
  await Plotly.newPlot('chart', data, layout, { responsive: true, ...config });
  if (frames) await Plotly.addFrames('chart', frames);
};
draw(content.data).catch(error => port.postMessage({ kind: 'failed', message: String(error) }));
}`;

async function chartContent(
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

const HTML = 'text/html';
const SCRIPTS = ['application/javascript', 'text/javascript'];
/** Preferred to JupyterLab's own renderer. */
const HTML_RANK = (htmlRendererFactory.defaultRank ?? 50) - 1;

export interface FramedOptions {
  readonly panel: NotebookPanel;
  readonly files: Files;
  /** Asks the user; null: this page is read-only. */
  readonly trust: (() => void) | null;
}

export function frameScripts(options: FramedOptions): void {
  const { rendermime } = options.panel.content;
  const createRenderer = (renderer: IRenderMime.IRendererOptions): IRenderMime.IRenderer =>
    new ScriptedOutput(renderer, options);
  rendermime.addFactory({ safe: true, mimeTypes: [HTML], createRenderer }, HTML_RANK);
  // Preferred to a picture or HTML of the same chart.
  rendermime.addFactory({ safe: true, mimeTypes: CHARTS, createRenderer }, HTML_RANK - 1);
  rendermime.addFactory({ safe: true, mimeTypes: SCRIPTS, createRenderer }, 109);
}

/** An output of several types: the richest type that can be shown, and a line about a type that cannot be shown. */
export class BundleOutput extends Panel {
  constructor(
    protected readonly options: IRenderMime.IRendererOptions,
    protected readonly framed: FramedOptions
  ) {
    super();
  }

  /** The alternative to this renderer's type, and a line with the reason. */
  protected async showOther(model: IRenderMime.IMimeModel, ...lines: HTMLElement[]): Promise<void> {
    const { [this.options.mimeType]: _, ...data } = model.data;
    const { trusted, metadata } = model;
    const { rendermime } = this.framed.panel.content;
    const type = rendermime.preferredMimeType(data, trusted ? 'any' : 'ensure');
    if (this.isDisposed) return;
    this.empty();
    if (type !== undefined) {
      const other = rendermime.createRenderer(type);
      this.addWidget(other);
      await other.renderModel(new MimeModel({ data, metadata, trusted }));
    }
    this.node.append(...lines);
  }

  protected trustNotice(text: string): HTMLElement {
    return trustLine(text, this.framed.trust);
  }

  protected empty(): void {
    for (const widget of [...this.widgets]) widget.dispose();
    this.node.replaceChildren();
  }
}

class ScriptedOutput extends BundleOutput implements IRenderMime.IRenderer {
  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { mimeType } = this.options;
    const isChart = CHARTS.includes(mimeType);
    const isScripted = isChart || hasScripts(model.data);
    if (isScripted && model.trusted && this.framed.trust !== null) {
      this.empty();
      this.frame = new OutputFrame({
        content: () =>
          isChart ? chartContent(mimeType, model.data, frameStyle(this.node)) : this.html(model),
        onLink: this.framed.files.follow,
        onMessage: message => {
          if (message.kind === 'failed')
            void this.showOther(
              model,
              outputLine(trans.__('This chart cannot be drawn: %1', String(message.message)))
            );
        }
      });
      this.node.append(this.frame.node);
      return;
    }
    const note = isScripted
      ? [
          this.trustNotice(
            trans.__('This output has scripts. They run once you run its cell or trust the notebook.')
          )
        ]
      : [];
    if (mimeType !== HTML) return this.showOther(model, ...note);
    if (this.plain === null) {
      this.empty();
      this.plain = htmlRendererFactory.createRenderer({ ...this.options, mimeType: HTML });
      this.plain.node.dataset['mimeType'] = HTML;
      this.addWidget(this.plain);
    }
    // Always sanitized: the page itself runs no script of an output.
    await this.plain.renderModel(isScripted ? untrusted(model) : model);
    this.note?.remove();
    this.note = note[0] ?? null;
    if (this.note) this.node.append(this.note);
  }

  override dispose(): void {
    this.empty();
    super.dispose();
  }

  protected override empty(): void {
    this.frame?.dispose();
    this.frame = null;
    this.plain = null;
    super.empty();
  }

  private async html(model: IRenderMime.IMimeModel): Promise<FrameContent> {
    const outputs = this.outputs();
    const before = outputs[outputs.findIndex(output => output === model) - 1]?.data;
    const html = frameHtml(drawnTogether(model.data, before));
    return {
      html: [...librariesOf(outputs, model), await this.framed.files.inlined(html)].join('\n'),
      css: frameStyle(this.node),
      scripts: []
    };
  }

  /** All outputs of the notebook, in order. */
  private outputs(): readonly IOutputModel[] {
    const cells = this.framed.panel.content.model?.cells ?? [];
    return [...cells]
      .filter((cell): cell is CodeCellModel => cell.type === 'code')
      .flatMap(({ outputs }) => Array.from({ length: outputs.length }, (_, at) => outputs.get(at)));
  }

  private frame: OutputFrame | null = null;
  private plain: IRenderMime.IRenderer | null = null;
  private note: HTMLElement | null = null;
}

function untrusted({ data, metadata }: IRenderMime.IMimeModel): IRenderMime.IMimeModel {
  return new MimeModel({ data, metadata, trusted: false });
}

function trustLine(text: string, trust: (() => void) | null): HTMLElement {
  if (trust === null) return outputLine(trans.__('This output has scripts. They do not run in a view.'));
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'tpl-Button';
  button.textContent = trans.__('Trust this notebook…');
  button.addEventListener('click', trust);
  return outputLine(text, button);
}
