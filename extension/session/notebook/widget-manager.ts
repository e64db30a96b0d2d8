/**
 * JupyterLab's widget manager. Widgets of ipywidgets and of TPULab are shown in the page; of third-party widgets the page has only
 * the state, and their code runs in a frame.
 */
import '@jupyter-widgets/base/css/index.css';
import '@jupyter-widgets/controls/css/widgets-base.css';
import '../../../style/widget-icons.css';
import * as base from '@jupyter-widgets/base';
import { serialize_state } from '@jupyter-widgets/base-manager';
import { WidgetManager } from '@jupyter-widgets/jupyterlab-manager/lib/manager';
import {
  OUTPUT_WIDGET_VERSION,
  OutputModel,
  OutputView
} from '@jupyter-widgets/jupyterlab-manager/lib/output';
import type { CodeCellModel } from '@jupyterlab/cells';
import { URLExt } from '@jupyterlab/coreutils';
import { type Kernel, type KernelMessage, ServerConnection } from '@jupyterlab/services';
import type { Widget } from '@lumino/widgets';
import type { FramedOptions } from './framed-output.js';
import { FramedModel, FramedView, framedWidget, type FramedParts, stateOf } from './framed-widgets.js';
import { modelsIn, savedModels, shownModels, STATE, referencedModels } from '../files/widget-state.js';

export interface WidgetOptions extends FramedOptions {
  /** Settings of the server that runs the notebook's kernel. */
  readonly kernelSettings: () => ServerConnection.ISettings | null;
  /** Called once per notebook: it shows widgets whose kernel has ended. */
  readonly onDead: () => void;
}

/** Shown in the page itself: core widgets run no code of a notebook. */
const PAGE_MODULES = new Set([
  '@jupyter-widgets/base',
  '@jupyter-widgets/controls',
  '@jupyter-widgets/output',
  '@tpulab/widgets'
]);
/** Shown in a frame as well as in the page. */
const PAGE_AND_FRAME = new Set(['@jupyter-widgets/base', '@jupyter-widgets/controls']);
/** Limit for requests to a kernel that does not answer in the four seconds of ipywidgets, before its widgets are requested one by one. */
const MAX_QUESTIONS = 5;
const REQUEST_TIMEOUT_MS = 20_000;
/** For megabytes of a package, from a machine behind a slow network. */
const PACKAGE_MS = 120_000;
/** A file with more widget state than this is hard to open for every other program. */
const MAX_STATE_CHARS = 8_000_000;

export class PageWidgetManager extends WidgetManager {
  readonly closed = new Set<string>();
  private fetched: Promise<void> | null = null;
  private questions = 0;

  constructor(private readonly options: WidgetOptions) {
    const { context, content } = options.panel;
    super(context, content.rendermime, { saveState: false });
    context.sessionContext.kernelChanged.connect(() => (this.fetched = null));
  }

  /**
   * JupyterLab requests all widgets of the kernel whenever a page connects. A kernel that runs a cell answers in another thread, and
   * output that the cell prints meanwhile counts as part of the answer. So widgets are requested once, for a widget unknown to the page:
   * the bridge delivers missed messages. Models of the file's state are created only where an output shows them (`fromFile`).
   */
  override async restoreWidgets(): Promise<void> {}

  private async fromKernel(): Promise<void> {
    await this.context.sessionContext.ready;
    this.questions = 0;
    if (this.kernel !== null) await this._loadFromKernel().catch(() => undefined);
  }

  /**
   * ipywidgets mistakes a slow kernel for an old one, and then waits for each widget without limit. The request is repeated once the
   * kernel is not busy: widgets may be closed meanwhile, and those do not answer.
   */
  protected override async _loadFromKernelModels(): Promise<void> {
    await this.untilIdle();
    if (this.isDisposed || this.kernel === null) return;
    if ((this.questions += 1) < MAX_QUESTIONS) return this._loadFromKernel();
    await Promise.race([
      super._loadFromKernelModels(),
      new Promise(resolve => void setTimeout(resolve, REQUEST_TIMEOUT_MS))
    ]).finally(() => (this.questions = 0));
  }

  private async untilIdle(): Promise<void> {
    const { sessionContext } = this.context;
    while (sessionContext.session?.kernel?.status === 'busy')
      await new Promise(resolve => void sessionContext.statusChanged.connect(resolve));
  }

  /** Only for a trusted output. */
  async fromFile(id: string): Promise<void> {
    const saved = savedModels(this.context.model.getMetadata('widgets'));
    const ids = referencedModels([id], each => saved[each]?.state, saved);
    const state = Object.fromEntries(
      [...ids].filter(each => !this.has_model(each)).map(each => [each, structuredClone(saved[each])])
    );
    await this.set_state({ version_major: 2, version_minor: 0, state } as never);
  }

  override register_model(id: string, model: Promise<base.WidgetModel>): void {
    super.register_model(id, model);
    void model.then(made => made.once('comm:close', () => this.closed.add(id)));
  }

  /** Sets state from a file without waiting for the kernel: no model of the kernel is among these. */
  override async _get_comm_info(): Promise<object> {
    return this.questions < MAX_QUESTIONS ? {} : ((await super._get_comm_info()) as object);
  }

  protected override async loadModelClass(...call: Parameters<WidgetManager['loadClass']>): Promise<never> {
    return (PAGE_MODULES.has(call[1]) ? await super.loadModelClass(...call) : FramedModel) as never;
  }

  protected override async loadViewClass(...call: Parameters<WidgetManager['loadClass']>): Promise<never> {
    return (PAGE_MODULES.has(call[1]) ? await super.loadViewClass(...call) : FramedView) as never;
  }

  openComm(comm: Kernel.IComm, message: KernelMessage.ICommOpenMsg): Promise<void> {
    return this._handleCommOpen(comm, message);
  }

  /**
   * Whether the kernel has closed the widget, as a temporary progress bar does. A page has saved the other widgets, so a missing widget
   * of a trusted output was closed earlier.
   */
  wasClosed(id: string): boolean {
    return this.closed.has(id) || this.context.model.getMetadata('widgets') !== undefined;
  }

  get framed(): FramedParts {
    return { manager: this, files: this.options.files, packageFile: name => this.packageFile(name) };
  }

  /**
   * A front-end file of a package in the kernel's environment; null: no file of this name.
   *
   * @throws when the server has not answered in `PACKAGE_MS`
   */
  private async packageFile(name: string): Promise<string | null> {
    const settings = this.options.kernelSettings();
    if (this.kernel === null || settings === null) return null;
    const route = `bridge/v1/kernels/${this.kernel.id}/frontend`;
    const url = URLExt.join(settings.baseUrl, route, URLExt.encodeParts(name));
    const answer = await ServerConnection.makeRequest(
      url,
      { signal: AbortSignal.timeout(PACKAGE_MS) },
      settings
    );
    return answer.ok ? answer.text() : null;
  }

  /** The view of a model; null: the model no longer exists. */
  async show(id: string, onFailed: (message: string) => void): Promise<Widget | null> {
    if (!this.has_model(id)) await (this.fetched ??= this.fromKernel());
    if (!this.has_model(id)) await this.fromFile(id);
    if (!this.has_model(id)) return null;
    const model = await this.get_model(id);
    if (!model.comm_live) this.options.onDead();
    if (await this.needsFrame(id)) return framedWidget(this.framed, model, onFailed);
    const view = await this.create_view(model);
    const error: unknown = (view.model as { get(name: string): unknown }).get('error');
    if (view instanceof base.ErrorWidgetView)
      throw error instanceof Error ? error : new Error('its view cannot be made');
    return view.luminoWidget;
  }

  /** A tree with third-party widgets is in one frame, as they may access each other, unless a part of it requires the page. */
  private async needsFrame(root: string): Promise<boolean> {
    const modules = new Set<string>();
    const open = [root];
    const seen = new Set<string>();
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      if (seen.has(id) || !this.has_model(id)) continue;
      seen.add(id);
      const model = await this.get_model(id);
      modules.add(model.get('_model_module') as string);
      open.push(...modelsIn(stateOf(model)));
    }
    const others = [...modules].some(module => !PAGE_MODULES.has(module));
    return others && [...modules].every(module => PAGE_AND_FRAME.has(module) || !PAGE_MODULES.has(module));
  }

  /** Stores the state of visible widgets in the file, so that they can be shown without their kernel. */
  save(): void {
    const { model } = this.context;
    const cells = [...model.cells].filter((cell): cell is CodeCellModel => cell.type === 'code');
    const outputs = cells.flatMap(({ outputs: all }) =>
      Array.from({ length: all.length }, (_, at) => all.get(at))
    );
    const before = savedModels(model.getMetadata('widgets'));
    const models = (this as unknown as { _modelsSync: Map<string, base.WidgetModel> })._modelsSync;
    const { state: now } = serialize_state([...models.values()], { drop_defaults: true });
    // Untrusted state stays unchanged.
    const all = { ...before, ...(now as unknown as typeof before) };
    const ids = referencedModels(
      shownModels(outputs),
      id => (this.closed.has(id) ? undefined : all[id]?.state),
      all
    );
    const state = Object.fromEntries([...ids].sort().map(id => [id, all[id]]));
    const saved = ids.size === 0 ? undefined : { [STATE]: { version_major: 2, version_minor: 0, state } };
    if (saved === undefined) {
      if (model.getMetadata('widgets') !== undefined) model.deleteMetadata('widgets');
      return;
    }
    const text = JSON.stringify(saved);
    if (text !== JSON.stringify(model.getMetadata('widgets')) && text.length <= MAX_STATE_CHARS)
      model.setMetadata('widgets', JSON.parse(text));
  }
}

export function loadedWidgets(options: WidgetOptions): PageWidgetManager {
  const manager = new PageWidgetManager(options);
  manager.register({
    name: '@jupyter-widgets/base',
    version: base.JUPYTER_WIDGETS_VERSION,
    exports: base as unknown as base.ExportMap
  });
  manager.register({
    name: '@jupyter-widgets/controls',
    version: '2.0.0',
    exports: async () => (await import('@jupyter-widgets/controls')) as unknown as base.ExportMap
  });
  manager.register({
    name: '@jupyter-widgets/output',
    version: OUTPUT_WIDGET_VERSION,
    exports: { OutputModel, OutputView }
  });
  manager.register({
    name: '@tpulab/widgets',
    version: '1.0.0',
    exports: async () => (await import('../../src/widgets/host.js')).widgetExports
  });
  return manager;
}
