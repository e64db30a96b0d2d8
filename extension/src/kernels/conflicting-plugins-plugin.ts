/** Detects that another extension provides managers in place of ours, and reports the remedy. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { type JupyterFrontEndPlugin, JupyterLab } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { IKernelManager, IKernelSpecManager, ISessionManager } from '@jupyterlab/services';
import { ITranslator } from '@jupyterlab/translation';
import { CompositeKernelManager } from './kernel-manager.js';
import { CompositeSessionManager, CompositeSpecManager } from './managers.js';
import { IBridgeBackends } from '../backends/tokens.js';
import { conflictingPlugins } from './conflicting-plugins.js';
import { trans, translateWith } from '../text/trans.js';

export const conflictPlugin: JupyterFrontEndPlugin<void> = {
  id: '@tpulab/labextension:conflict',
  description:
    'Explains why the kernels of the TPULab server are missing when another extension manages kernels.',
  autoStart: true,
  requires: [IBridgeBackends],
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, backends: IBridgeBackends, translator: ITranslator | null): void => {
    const { kernels, kernelspecs, sessions } = app.serviceManager;
    const ours =
      kernels instanceof CompositeKernelManager &&
      kernelspecs instanceof CompositeSpecManager &&
      sessions instanceof CompositeSessionManager;
    if (ours || !backends.isUsable) {
      return; // fine, or already disabled with its own reason
    }
    translateWith(translator);
    const plugins = app instanceof JupyterLab ? app.info.availablePlugins : [];
    const tokens = [IKernelManager, IKernelSpecManager, ISessionManager].map(token => token.name);
    const conflicts = conflictingPlugins(plugins, tokens);
    const names = conflicts.length > 0 ? conflicts.join(', ') : trans.__('another extension');
    const message = trans.__(
      'Kernels of the TPULab server are not shown, because %1 manages the kernels of this page. ' +
        'Disable that extension in the Extension Manager and reload the page.',
      names
    );
    backends.disable(new Error(message));
    Notification.warning(message, { autoClose: false });
  }
};
