/** Widgets in outputs. Their code is loaded with the first widget that a kernel creates or a notebook shows. */
import { type IRenderMime, MimeModel } from '@jupyterlab/rendermime';
import type { Kernel } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';
import { loadSanitizer } from '../kit/sanitizer.js';
import { BundleOutput, type FramedOptions } from './framed-output.js';
import { outputLine } from './output-frame.js';
import type { PageWidgetManager, WidgetOptions } from './widget-manager.js';
import { hasSavedState, savedText, VIEW } from '../files/widget-state.js';
import { messageOf, trans } from '../text.js';

const TARGET = 'jupyter.widget';

/** A reader's kernel accepts no widget message: a widget that looked live would not respond. */
export function describeWidgets({ panel: { content } }: FramedOptions): void {
  content.rendermime.addFactory(
    { safe: true, mimeTypes: [VIEW], createRenderer: () => new DescribedWidget() },
    // Preferred to the plain text of the output.
    -10
  );
}

/** Lives as long as the panel. */
export class LazyWidgets {
  constructor(private readonly options: WidgetOptions) {
    const { content, sessionContext } = options.panel;
    content.rendermime.addFactory(
      {
        safe: true,
        mimeTypes: [VIEW],
        createRenderer: renderer => new WidgetOutput(renderer, options, this)
      },
      -10
    );
    sessionContext.kernelChanged.connect((_, { newValue }) => this.listen(newValue));
    this.listen(sessionContext.session?.kernel ?? null);
  }

  load(): Promise<PageWidgetManager> {
    // Widgets with HTML sanitize it immediately.
    this._loaded ??= Promise.all([import('./widget-manager.js'), loadSanitizer()]).then(
      ([{ loadedWidgets }]) => loadedWidgets(this.options),
      (error: unknown) => {
        this._loaded = undefined;
        throw error;
      }
    );
    return this._loaded;
  }

  /** Called before the notebook is saved. */
  async save(): Promise<void> {
    (await this._loaded)?.save();
  }

  /** Comms that a kernel opens before the manager exists wait for it, in order. */
  private listen(kernel: Kernel.IKernelConnection | null): void {
    if (kernel === null || !kernel.handleComms) return;
    kernel.registerCommTarget(TARGET, async (comm, message) => {
      await (await this.load()).openComm(comm, message);
    });
  }

  private _loaded: Promise<PageWidgetManager> | undefined;
}

class WidgetOutput extends BundleOutput implements IRenderMime.IRenderer {
  constructor(
    renderer: IRenderMime.IRendererOptions,
    private readonly shown: WidgetOptions,
    private readonly lazy: LazyWidgets
  ) {
    super(renderer, shown);
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { model_id: id } = (model.data[VIEW] ?? {}) as { readonly model_id?: unknown };
    // Its view was closed.
    if (id === '') {
      this.hide();
      return;
    }
    if (typeof id !== 'string') return this.showOther(model);
    const notebook = this.shown.panel.context.model;
    if (!model.trusted) {
      const notes = hasSavedState(notebook, id)
        ? [
            this.trustNotice(
              trans.__('This is a widget. It is shown once you run its cell or trust the notebook.')
            )
          ]
        : [];
      const { data, metadata, trusted } = model;
      const text = savedText(notebook.getMetadata('widgets'), id) || data['text/plain'];
      await this.showOther(
        new MimeModel({ data: { ...data, 'text/plain': text }, metadata, trusted }),
        ...notes
      );
      return;
    }
    this.empty();
    this.addClass('tpl-LoadingWidget');
    this.node.textContent = trans.__('Loading the widget…');
    try {
      const loaded = await this.lazy.load();
      const view = await loaded.show(id, message => void this.fail(model, message));
      this.removeClass('tpl-LoadingWidget');
      if (this.isDisposed) {
        view?.dispose();
      } else if (view !== null && !view.isDisposed) {
        this.node.textContent = '';
        this.addWidget(view);
        view.disposed.connect(() => {
          // Closed by the kernel, not replaced by the output's other types. The view is still being removed.
          if (!this.isReplaced) queueMicrotask(() => void this.showClosed(model));
        });
      } else if (view !== null || loaded.wasClosed(id)) {
        await this.showClosed(model);
      } else {
        this.shown.onDead();
        await this.showOther(model);
      }
    } catch (error) {
      await this.fail(model, messageOf(error));
    }
  }

  private isReplaced = false;

  /** A temporary bar is closed after its loop, and so is a figure that its notebook has finished; the figure leaves a picture. */
  private async showClosed(model: IRenderMime.IMimeModel): Promise<void> {
    const hasPicture = Object.keys(model.data).some(type => type.startsWith('image/'));
    if (!hasPicture || this.isDisposed) this.hide();
    else await this.showOther(model);
  }

  private async fail(model: IRenderMime.IMimeModel, message: string): Promise<void> {
    this.removeClass('tpl-LoadingWidget');
    this.isReplaced = true;
    if (!this.isDisposed) await this.showOther(model, outputLine(message));
  }
}

class DescribedWidget extends Widget implements IRenderMime.IRenderer {
  async renderModel({ data }: IRenderMime.IMimeModel): Promise<void> {
    this.addClass('tpl-DescribedWidget');
    const text = data['text/plain'];
    const what = document.createElement('code');
    what.textContent = typeof text === 'string' ? text : Array.isArray(text) ? text.join('') : 'widget';
    this.node.replaceChildren(trans.__('Widget (not interactive in a read-only view):'), ' ', what);
  }
}
