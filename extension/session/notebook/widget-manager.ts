/** JupyterLab's widget manager with the modules that this page knows. */
import '@jupyter-widgets/base/css/index.css';
import '@jupyter-widgets/controls/css/widgets-base.css';
import * as base from '@jupyter-widgets/base';
import { WidgetManager } from '@jupyter-widgets/jupyterlab-manager/lib/manager';
import {
  OUTPUT_WIDGET_VERSION,
  OutputModel,
  OutputView
} from '@jupyter-widgets/jupyterlab-manager/lib/output';
import { WidgetRenderer } from '@jupyter-widgets/jupyterlab-manager/lib/renderer';
import type { IRenderMime } from '@jupyterlab/rendermime';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';

/** Made once: model and view ask for it separately, and know each other. */
let anywidget: Promise<base.ExportMap> | undefined;

export interface LoadedWidgets {
  readonly renderer: (options: IRenderMime.IRendererOptions) => IRenderMime.IRenderer;
  /** Takes a comm that the kernel has opened. */
  readonly openComm: (comm: Kernel.IComm, message: KernelMessage.ICommOpenMsg) => Promise<void>;
}

/** The page's own serves widgets of all versions: what they send has not changed since 0.9. */
const ANYWIDGET = { name: 'anywidget', version: '0.11.0' } as const;

class PageWidgetManager extends WidgetManager {
  protected override loadClass(
    ...[className, module, version]: Parameters<WidgetManager['loadClass']>
  ): ReturnType<WidgetManager['loadClass']> {
    return super.loadClass(className, module, module === ANYWIDGET.name ? ANYWIDGET.version : version);
  }

  openComm(comm: Kernel.IComm, message: KernelMessage.ICommOpenMsg): Promise<void> {
    return this._handleCommOpen(comm, message);
  }
}

export function widgetManager(panel: NotebookPanel): LoadedWidgets {
  const context = panel.context;
  const manager = new PageWidgetManager(context, panel.content.rendermime, { saveState: false });
  const { JUPYTER_WIDGETS_VERSION: baseVersion } = base;
  manager.register({
    name: '@jupyter-widgets/base',
    version: baseVersion,
    exports: {
      WidgetModel: base.WidgetModel,
      WidgetView: base.WidgetView,
      DOMWidgetView: base.DOMWidgetView,
      DOMWidgetModel: base.DOMWidgetModel,
      LayoutModel: base.LayoutModel,
      LayoutView: base.LayoutView,
      StyleModel: base.StyleModel,
      StyleView: base.StyleView,
      ErrorWidgetView: base.ErrorWidgetView
    }
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
  manager.register({ ...ANYWIDGET, exports: () => (anywidget ??= loadAnywidget()) });
  manager.register({
    name: '@tpulab/widgets',
    version: '1.0.0',
    exports: async () => (await import('../../src/widgets/host.js')).widgetExports
  });
  return {
    openComm: (comm, message) => manager.openComm(comm, message),
    renderer: options => new WidgetRenderer(options, manager)
  };
}

async function loadAnywidget(): Promise<base.ExportMap> {
  return (await import('anywidget')).default(base);
}
