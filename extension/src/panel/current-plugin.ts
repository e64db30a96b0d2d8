/** Follows the active notebook or console, and its kernel's changes to it. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILabShell } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { Widget } from '@lumino/widgets';
import { IBridgeBackends } from '../backends/tokens.js';
import { ICurrentKernel } from '../tokens.js';
import { ignoreKernelDetails, watchChoice } from './kernel-details.js';
import { CurrentKernelModel, type FollowedContext } from './current-model.js';

export const currentKernelPlugin: JupyterFrontEndPlugin<ICurrentKernel> = {
  id: '@tpulab/labextension:current-kernel',
  description: 'Follows the kernel of the current notebook or console.',
  autoStart: true,
  requires: [IBridgeBackends],
  optional: [ILabShell],
  provides: ICurrentKernel,
  activate: (app: JupyterFrontEnd, backends: IBridgeBackends, labShell: ILabShell | null): ICurrentKernel => {
    const model = new CurrentKernelModel(backends);
    const follow = (widget: Widget | null): void => {
      const context = contextOf(widget);
      // A text file or a terminal has no kernel: the previous kernel stays in view until it is closed.
      if (context) {
        model.follow(context);
      }
    };
    if (labShell) {
      labShell.currentChanged.connect((_, { newValue }) => follow(newValue));
    }
    void app.restored.then(() => follow(app.shell.currentWidget));
    return model;
  }
};

export const kernelDetailsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@tpulab/labextension:kernel-details',
  description: 'Keeps a notebook unchanged that is only opened.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_: JupyterFrontEnd, notebooks: INotebookTracker): void => {
    // A second view of a notebook shows the same model.
    const watched = new WeakSet<object>();
    notebooks.widgetAdded.connect((__, { model, sessionContext }) => {
      if (model !== null && !watched.has(model)) {
        watched.add(model);
        ignoreKernelDetails(model, watchChoice(sessionContext));
      }
    });
  }
};

/** Notebooks, consoles and other documents that run code carry a session context under this name. */
function contextOf(widget: Widget | null): FollowedContext | null {
  if (!widget || !('sessionContext' in widget)) {
    return null;
  }
  const { sessionContext } = widget;
  const isContext =
    typeof sessionContext === 'object' && sessionContext !== null && 'kernelChanged' in sessionContext;
  return isContext ? (sessionContext as FollowedContext) : null;
}
