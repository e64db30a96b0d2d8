/** Shows the folded output of the other hosts of a slice as JupyterLab shows HTML, with a tab for each that differs. */
import { htmlRendererFactory, type IRenderMime } from '@jupyterlab/rendermime';
import { Panel } from '@lumino/widgets';
import { HOSTS_CLASS, type IOpenHost, showHostTabs } from './host-tabs.js';
import { trans } from '../text/trans.js';

/** Marks the HTML beside it as the kernel's folds. */
const HOSTS = 'application/vnd.tpulab.hosts+json';
const HTML = 'text/html';

export const hostsOutputFactory: IRenderMime.IRendererFactory = {
  // The HTML goes through JupyterLab's own renderer, which sanitizes untrusted HTML.
  safe: true,
  mimeTypes: [HOSTS],
  // Preferred to plain HTML.
  defaultRank: (htmlRendererFactory.defaultRank ?? 50) - 1,
  createRenderer: options => new HostsOutput(options)
};

class HostsOutput extends Panel implements IRenderMime.IRenderer {
  constructor(options: IRenderMime.IRendererOptions) {
    super();
    this.addClass('jp-TPULabHosts');
    this.html = htmlRendererFactory.createRenderer({ ...options, mimeType: HTML });
    this.addWidget(this.html);
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const hadFocus = this.node.contains(document.activeElement);
    await this.html.renderModel(model);
    const root = this.html.node.querySelector<HTMLElement>(`.${HOSTS_CLASS}`);
    if (root) {
      showHostTabs(root, this.open, trans.__('Output of other hosts'));
      if (hadFocus) root.querySelector<HTMLElement>('[role="tab"][tabindex="0"], summary')?.focus();
    }
  }

  private readonly html: IRenderMime.IRenderer;
  private readonly open: IOpenHost = { host: null };
}
