/** ipywidgets, anywidget and our own widgets: loaded with the first one that a kernel makes or a notebook shows. */
import type { IRenderMime } from '@jupyterlab/rendermime';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { Panel, Widget } from '@lumino/widgets';
import type { LoadedWidgets } from './widget-manager.js';
import { trans } from '../text.js';

const VIEW = 'application/vnd.jupyter.widget-view+json';
const TARGET = 'jupyter.widget';

/** For as long as the panel exists. */
export function followWidgets(panel: NotebookPanel): LazyWidgets {
  return new LazyWidgets(panel);
}

/** A reader's kernel takes no message of a widget: one that looked alive would be moved in vain. */
export function describeWidgets({ content: { rendermime } }: NotebookPanel): void {
  rendermime.addFactory(
    { safe: true, mimeTypes: [VIEW], createRenderer: () => new DescribedWidget() },
    // Before the text that stands beside it.
    -10
  );
}

export class LazyWidgets {
  constructor(private readonly panel: NotebookPanel) {
    const { rendermime } = panel.content;
    rendermime.addFactory(
      { safe: false, mimeTypes: [VIEW], createRenderer: options => this.renderer(options) },
      -10
    );
    panel.sessionContext.kernelChanged.connect((_, { newValue }) => this.listen(newValue));
    this.listen(panel.sessionContext.session?.kernel ?? null);
  }

  /** Comms that a kernel opens before the manager is there wait for it, in order. */
  private listen(kernel: Kernel.IKernelConnection | null): void {
    if (kernel === null || !kernel.handleComms) {
      return;
    }
    kernel.registerCommTarget(TARGET, async (comm, message) => {
      const { openComm } = await this.load();
      await openComm(comm, message);
    });
  }

  load(): Promise<LoadedWidgets> {
    this._loaded ??= import('./widget-manager.js').then(({ widgetManager }) => widgetManager(this.panel));
    return this._loaded;
  }

  private renderer(options: IRenderMime.IRendererOptions): IRenderMime.IRenderer {
    return new LoadingWidget(this.load().then(({ renderer }) => renderer(options)));
  }

  private _loaded: Promise<LoadedWidgets> | undefined;
}

/** Stands in the output until the manager is there; its cell may be out of the page meanwhile. */
class LoadingWidget extends Panel implements IRenderMime.IRenderer {
  constructor(private readonly real: Promise<IRenderMime.IRenderer>) {
    super();
    this.addClass('tpl-LoadingWidget');
    this.node.textContent = trans.__('Loading the widget…');
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const real = await this.real;
    if (this.isDisposed) {
      real.dispose();
      return;
    }
    this.node.textContent = '';
    this.addWidget(real);
    await real.renderModel(model);
  }
}

class DescribedWidget extends Widget implements IRenderMime.IRenderer {
  async renderModel({ data }: IRenderMime.IMimeModel): Promise<void> {
    this.addClass('tpl-DescribedWidget');
    const text = data['text/plain'];
    const what = document.createElement('code');
    what.textContent = typeof text === 'string' ? text : Array.isArray(text) ? text.join('') : 'widget';
    this.node.replaceChildren(trans.__('A widget, which is not live in a view:'), ' ', what);
  }
}
