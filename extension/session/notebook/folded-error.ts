/** An error: its cause in one line, and its traceback, which is folded when it is long. */
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import type { IError } from '@jupyterlab/nbformat';
import { errorRendererFactory, type IRenderMime } from '@jupyterlab/rendermime';
import { trans } from '../text.js';

const ERROR = 'application/vnd.jupyter.error';
const TRACEBACK = 'application/vnd.jupyter.stderr';
/** A traceback of at most this many lines can be read at a glance. */
const SHORT = 12;

export const foldedErrorFactory: IRenderMime.IRendererFactory = {
  safe: true,
  mimeTypes: [ERROR],
  // Preferred to the plain traceback.
  defaultRank: (errorRendererFactory.defaultRank ?? 110) - 1,
  createRenderer: options => new FoldedError(options)
};

class FoldedError extends Widget implements IRenderMime.IRenderer {
  constructor(options: IRenderMime.IRendererOptions) {
    super();
    this.addClass('tpl-Error');
    this.traceback = errorRendererFactory.createRenderer({ ...options, mimeType: TRACEBACK });
    this.traceback.node.dataset['mimeType'] = TRACEBACK;
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { ename, evalue, traceback } = model.data[ERROR] as unknown as IError;
    const [first = ''] = evalue.split('\n', 1);
    const what = document.createElement('strong');
    what.textContent = first === '' ? ename : `${ename}: ${first}`;
    const lines = traceback.join('\n').split('\n').length;
    const details = document.createElement('details');
    details.open = lines <= SHORT;
    const summary = document.createElement('summary');
    summary.append(
      what,
      Object.assign(document.createElement('span'), { textContent: trans.__('%1 lines', lines) })
    );
    details.append(summary, this.traceback.node);
    this.node.replaceChildren(details);
    await this.traceback.renderModel(model);
  }

  override dispose(): void {
    this.traceback.dispose();
    super.dispose();
  }

  protected override onAfterAttach(): void {
    MessageLoop.sendMessage(this.traceback, Widget.Msg.AfterAttach);
  }
  protected override onBeforeDetach(): void {
    MessageLoop.sendMessage(this.traceback, Widget.Msg.BeforeDetach);
  }
  /** Otherwise the widget counts as attached, and cannot be disposed. */
  protected override onAfterDetach(): void {
    MessageLoop.sendMessage(this.traceback, Widget.Msg.AfterDetach);
  }

  private readonly traceback: IRenderMime.IRenderer;
}
