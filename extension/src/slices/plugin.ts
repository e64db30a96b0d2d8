/** Page features for a notebook on a slice: the output of other hosts in tabs, and one action after the loss of a host. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ITranslator } from '@jupyterlab/translation';
import { CommandIDs } from '../commands.js';
import { NoticePlace } from '../ui/notebook-notice.js';
import { GroupWatch } from './group-watch.js';
import { hostsOutputFactory } from './hosts-output.js';
import { trans, translateWith } from '../text/trans.js';

export const slicesPlugin: JupyterFrontEndPlugin<void> = {
  id: '@tpulab/labextension:slices',
  description:
    'Shows the output of the hosts of a slice in tabs; when one is lost, offers to restart all and to rerun the needed cells.',
  autoStart: true,
  optional: [IRenderMimeRegistry, INotebookTracker, ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry | null,
    tracker: INotebookTracker | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    translateWith(translator);
    rendermime?.addFactory(hostsOutputFactory);
    const watches = new WeakMap<NotebookPanel, GroupWatch>();
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel: NotebookPanel) => {
        const watch = new GroupWatch({
          notebook: panel.content,
          sessionContext: panel.sessionContext,
          notice: new NoticePlace(panel.contentHeader),
          executed: NotebookActions.executed,
          runCells: NotebookActions.runCells
        });
        watches.set(panel, watch);
        return watch;
      }
    });
    const front = (): GroupWatch | undefined =>
      tracker?.currentWidget ? watches.get(tracker.currentWidget) : undefined;
    app.commands.addCommand(CommandIDs.runAgain, {
      label: trans.__('Restart All Hosts and Rerun'),
      caption: trans.__('After the loss of a host: run the failed cell and those above it that had run'),
      describedBy: { args: { type: 'object', properties: {} } },
      isEnabled: () => (front()?.lost ?? null) !== null,
      execute: () => front()?.runAgain()
    });
    palette?.addItem({ command: CommandIDs.runAgain, category: trans.__('TPULab') });
  }
};
