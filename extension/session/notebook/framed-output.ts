/**
 * Outputs with scripts. In a trusted notebook they run in a frame of an opaque origin, which knows nothing of this page; in another
 * one the output is shown without them, with a note how to run them.
 */
import { Panel } from '@lumino/widgets';
import type { CodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { htmlRendererFactory, type IOutputModel, type IRenderMime, MimeModel } from '@jupyterlab/rendermime';
import { drawnTogether, frameDocument, hasScripts, librariesBefore } from './scripted-html.js';
import { trans } from '../text.js';

const HTML = 'text/html';
const SCRIPTS = ['application/javascript', 'text/javascript'];
/** A taller output scrolls in its frame. */
const MAX_HEIGHT_PX = 4_000;

/** `trust` asks the person; null: this page may only look on. */
export function frameScripts(panel: NotebookPanel, trust: (() => void) | null): void {
  const { rendermime } = panel.content;
  const createRenderer = (options: IRenderMime.IRendererOptions): IRenderMime.IRenderer =>
    new ScriptedOutput(options, panel, trust);
  rendermime.addFactory(
    { safe: true, mimeTypes: [HTML], createRenderer },
    // Before JupyterLab's own.
    (htmlRendererFactory.defaultRank ?? 50) - 1
  );
  // A script alone: without trust, the text beside it is shown.
  rendermime.addFactory({ safe: false, mimeTypes: SCRIPTS, createRenderer }, 109);
}

class ScriptedOutput extends Panel implements IRenderMime.IRenderer {
  constructor(
    private readonly options: IRenderMime.IRendererOptions,
    private readonly panel: NotebookPanel,
    private readonly trust: (() => void) | null
  ) {
    super();
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const isScripted = hasScripts(model.data);
    if (isScripted && model.trusted && this.trust !== null) {
      this.clear();
      this.node.append(this.frame(model));
      return;
    }
    if (this.html === null) {
      this.clear();
      this.html = htmlRendererFactory.createRenderer({ ...this.options, mimeType: HTML });
      this.html.node.dataset['mimeType'] = HTML;
      this.addWidget(this.html);
    }
    // Sanitized, whatever it is: the page itself runs no script of an output.
    await this.html.renderModel(isScripted ? untrusted(model) : model);
    this.note?.remove();
    if (isScripted) {
      this.note = scriptsNote(this.trust);
      this.node.append(this.note);
    }
  }

  override dispose(): void {
    this.clear();
    super.dispose();
  }

  private clear(): void {
    this.shown.abort();
    this.shown = new AbortController();
    this.html?.dispose();
    this.html = null;
    this.node.replaceChildren();
  }

  private frame(model: IRenderMime.IMimeModel): HTMLIFrameElement {
    const frame = document.createElement('iframe');
    frame.className = 'tpl-OutputFrame';
    frame.title = trans.__('Output with scripts');
    // Never `allow-same-origin`: with it, the frame could read this page's token.
    frame.setAttribute('sandbox', 'allow-scripts');
    frame.referrerPolicy = 'no-referrer';
    frame.src = new URL('_frame', document.baseURI).href;
    const { signal } = this.shown;
    // At each load: a cell that is moved takes its frame out of the page, and the frame comes back empty.
    frame.addEventListener(
      'load',
      () => {
        const outputs = this.outputs();
        const before = outputs[outputs.findIndex(output => output === model) - 1]?.data;
        const data = drawnTogether(model.data, before);
        const html = frameDocument(data, librariesBefore(outputs, model), styleOf(this.node));
        // It has no origin that could be named, and gets nothing but its own output.
        frame.contentWindow?.postMessage({ html }, '*');
      },
      { signal }
    );
    window.addEventListener(
      'message',
      ({ source, data }: MessageEvent<{ readonly tpulabFrameHeight?: unknown } | null>) => {
        const height = source === frame.contentWindow ? data?.tpulabFrameHeight : undefined;
        if (typeof height === 'number' && height >= 0) {
          frame.style.height = `${Math.min(height, MAX_HEIGHT_PX)}px`;
        }
      },
      { signal }
    );
    return frame;
  }

  /** Of the whole notebook, in its order. */
  private outputs(): readonly IOutputModel[] {
    const cells = this.panel.content.model?.cells ?? [];
    return [...cells]
      .filter((cell): cell is CodeCellModel => cell.type === 'code')
      .flatMap(({ outputs }) => Array.from({ length: outputs.length }, (_, at) => outputs.get(at)));
  }

  private html: IRenderMime.IRenderer | null = null;
  private note: HTMLElement | null = null;
  private shown = new AbortController();
}

function untrusted({ data, metadata }: IRenderMime.IMimeModel): IRenderMime.IMimeModel {
  return new MimeModel({ data, metadata, trusted: false });
}

function scriptsNote(trust: (() => void) | null): HTMLElement {
  const note = document.createElement('p');
  note.className = 'tpl-ScriptsNote';
  if (trust === null) {
    note.textContent = trans.__('This output has scripts. They do not run in a view.');
    return note;
  }
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'tpl-Button';
  button.textContent = trans.__('Trust this notebook…');
  button.addEventListener('click', trust);
  note.append(
    trans.__('This output has scripts. They run once you run its cell or trust the notebook.'),
    button
  );
  return note;
}

function styleOf(node: HTMLElement): Parameters<typeof frameDocument>[2] {
  const { color, font } = getComputedStyle(node);
  return { isDark: document.body.dataset['jpThemeLight'] === 'false', color, font };
}
