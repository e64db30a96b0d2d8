/**
 * Output too long to be shown live: a bar with its size, and the last lines below. The gateway creates it (`FLOOD_MIME`), so the
 * page gets no more than it can show; the complete output is in the kernel's journal, from which the buttons fetch it.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { type IRenderMime, MimeModel, RenderedText } from '@jupyterlab/rendermime';
import { ServerConnection } from '@jupyterlab/services';
import { Panel, Widget } from '@lumino/widgets';
import { countText, FLOOD_MIME, type FloodNote, sizeText } from '@tpulab/protocol';
import { kernelRoute } from './outputs-api.js';
import { trans } from '../text/trans.js';

const TEXT = 'application/vnd.jupyter.stdout';
/** Colour codes, and the characters of links that JupyterLab detects: each contains one of these. */
const MARKS = ['\x1b', '://', 'www.', 'data:'];

/**
 * Terminal sequences other than colours, in ECMA-48's forms: links (from gcc and systemctl), titles, character sets (`tput sgr0`).
 * `!` runs programs on a terminal; JupyterLab removes only the sequences that begin with `ESC [`.
 */
const SEQUENCES = /\x1b(?:[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\-~])/g;

/** JupyterLab searches a cell's whole output for links at each new line; for text without links, this gives the same result. */
class PrintedText extends RenderedText {
  override async render(model: IRenderMime.IMimeModel): Promise<void> {
    const printed = model.data[this.mimeType];
    if (typeof printed !== 'string') return super.render(model);
    const text = printed.replace(SEQUENCES, '');
    if (MARKS.some(mark => text.includes(mark)))
      return super.render(text === printed ? model : new MimeModel({ data: { [this.mimeType]: text } }));
    const pre = document.createElement('pre');
    pre.textContent = text;
    this.node.append(pre);
  }
}

export const printedTextFactory: IRenderMime.IRendererFactory = {
  safe: true,
  mimeTypes: [TEXT, 'application/vnd.jupyter.stderr'],
  // Preferred to JupyterLab's own renderer for text.
  defaultRank: 120,
  createRenderer: options => new PrintedText(options)
};

/** @param settingsOf how the bridge of a kernel is reached; null while unknown */
export function floodFactory(
  settingsOf: (kernelId: string) => ServerConnection.ISettings | null
): IRenderMime.IRendererFactory {
  return {
    safe: true,
    mimeTypes: [FLOOD_MIME],
    // Preferred to the plain text of the output.
    defaultRank: 10,
    createRenderer: options => new FloodOutput(options, settingsOf)
  };
}

class FloodOutput extends Panel implements IRenderMime.IRenderer {
  constructor(
    options: IRenderMime.IRendererOptions,
    private readonly settingsOf: (kernelId: string) => ServerConnection.ISettings | null
  ) {
    super();
    this.addClass('jp-TPULabFlood');
    const bar = document.createElement('div');
    bar.className = 'jp-TPULabFlood-bar';
    this.words.setAttribute('role', 'status');
    bar.append(this.words, this.problem);
    this.button(bar, trans.__('Open all'), async note => {
      window.open(await this.whole(note), '_blank');
    });
    this.button(bar, trans.__('Download'), async note => {
      const link = document.createElement('a');
      link.href = await this.whole(note);
      link.download = 'output.txt';
      link.click();
    });
    this.interrupt = this.button(bar, trans.__('Interrupt'), note => this.stop(note));
    this.addWidget(new Widget({ node: bar }));
    this.text = printedTextFactory.createRenderer({ ...options, mimeType: TEXT });
    this.addWidget(this.text);
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const note = model.data[FLOOD_MIME] as unknown as FloodNote;
    this.note = note;
    this.words.textContent = floodText(note);
    this.interrupt.hidden = !note.isRunning;
    this.toggleClass('jp-mod-running', note.isRunning);
    const { node } = this.text;
    const isAtEnd = node.scrollHeight - node.scrollTop - node.clientHeight < 24;
    const text = model.data['text/plain'];
    await this.text.renderModel(
      new MimeModel({ data: { [TEXT]: Array.isArray(text) ? text.join('') : (text ?? '') } })
    );
    if (isAtEnd) node.scrollTop = node.scrollHeight;
  }

  override dispose(): void {
    URL.revokeObjectURL(this.url);
    super.dispose();
  }

  private button(
    bar: HTMLElement,
    label: string,
    act: (note: FloodNote) => Promise<void>
  ): HTMLButtonElement {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'jp-TPULabButton';
    button.textContent = label;
    button.addEventListener('click', () => {
      const { note } = this;
      if (note === null) return;
      button.disabled = true;
      this.problem.textContent = '';
      act(note)
        .catch((error: unknown) => {
          this.problem.textContent = error instanceof Error ? error.message : String(error);
        })
        .finally(() => {
          button.disabled = false;
        });
    });
    bar.append(button);
    return button;
  }

  private async stop({ kernelId }: FloodNote): Promise<void> {
    await this.request(kernelId, `api/kernels/${encodeURIComponent(kernelId)}/interrupt`, { method: 'POST' });
  }

  /** The address of the execution's complete output so far; the browser stores it, not this page. */
  private async whole({ kernelId, msgId, from }: FloodNote): Promise<string> {
    const query = new URLSearchParams({ msgId, from: String(from) });
    const answer = await this.request(kernelId, `${kernelRoute(kernelId)}/outputs/text?${query}`);
    URL.revokeObjectURL(this.url);
    this.url = URL.createObjectURL(await answer.blob());
    return this.url;
  }

  private async request(kernelId: string, route: string, init: RequestInit = {}): Promise<Response> {
    const settings = this.settingsOf(kernelId);
    if (settings === null) {
      throw new Error(
        trans.__('The kernel of this output is not there. "tpulab outputs" prints what is stored.')
      );
    }
    const answer = await ServerConnection.makeRequest(URLExt.join(settings.baseUrl, route), init, settings);
    if (!answer.ok) throw await ServerConnection.ResponseError.create(answer);
    return answer;
  }
  private readonly words = document.createElement('span');
  private readonly problem = document.createElement('span');
  private readonly interrupt: HTMLButtonElement;
  private readonly text: IRenderMime.IRenderer;
  private note: FloodNote | null = null;
  private url = '';
}

/** `1,204,331 lines, 240 MB so far. The beginning and the last lines are shown.` */
function floodText({ lines, bytes, leftOut, isRunning }: FloodNote): string {
  const size = `${trans.__('%1 lines', countText(lines))}, ${sizeText(bytes)}`;
  const images =
    leftOut > 0 ? ` ${trans.__('%1 more images and tables are not shown.', countText(leftOut))}` : '';
  const state = isRunning ? trans.__('%1 so far.', size) : `${size}.`;
  return `${state} ${trans.__('The beginning and the last lines are shown.')}${images}`;
}
