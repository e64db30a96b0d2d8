/** Registers our widgets in JupyterLab, and gives them the bridge's live figures. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator } from '@jupyterlab/translation';
import { IBridgeBackends } from '../backends/tokens.js';
import { IBridgeEvents } from '../events/tokens.js';
import { hideUntrustedWidgets } from './untrusted-state.js';
import { shareHost } from './feed.js';
import { translateWith } from '../text/trans.js';

const MODULE_NAME = '@tpulab/widgets';
const MODULE_VERSION = '1.0.0';

export const widgetsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@tpulab/labextension:widgets',
  description: 'Shows the widgets of the Python package tpulab.',
  autoStart: true,
  requires: [IBridgeBackends, IBridgeEvents],
  optional: [INotebookTracker, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    backends: IBridgeBackends,
    events: IBridgeEvents,
    notebooks: INotebookTracker | null,
    translator: ITranslator | null
  ): void => {
    translateWith(translator);
    shareHost(backends, events);
    notebooks?.forEach(({ context }) => hideUntrustedWidgets(context.model));
    notebooks?.widgetAdded.connect((_, { context }) => hideUntrustedWidgets(context.model));
    void register(app);
  }
};

/**
 * Requested by name and not by a token at the top of this file: a JupyterLab without a widget manager has no module of
 * that name, and importing it there would break the whole extension.
 */
async function register(app: JupyterFrontEnd): Promise<void> {
  try {
    const { IJupyterWidgetRegistry } = await import('@jupyter-widgets/base');
    const registry = await app.resolveOptionalService(IJupyterWidgetRegistry);
    registry?.registerWidget({
      name: MODULE_NAME,
      version: MODULE_VERSION,
      // Loaded with the first TPULab widget.
      exports: async () => (await import('./host.js')).widgetExports
    });
  } catch {
    // No widget manager, so no widgets: an ordinary state.
  }
}
