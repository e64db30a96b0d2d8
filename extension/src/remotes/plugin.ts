/** Puts remotes into Lab: commands, launcher, a tab with all of them, status bar, and a banner for what the cloud announces. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { ReadonlyJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';
import { createElement } from 'react';
import { Backends } from '../backends/backends.js';
import { chipIcon } from '../panel/icon.js';
import { CommandIDs as RunCommandIDs } from '../runs/commands.js';
import { IBridgeBackends, ICurrentKernel } from '../tokens.js';
import { RemoteActions } from './actions.js';
import { CommandIDs } from './commands.js';
import { showConnectDialog } from './connect-dialog.js';
import { ManagerView } from './manager-view.js';
import { NoticeBanner } from './notice-view.js';
import { RemoteStatus } from './status-model.js';
import { RemoteItem } from './status-view.js';
import { showSyncDialog } from './sync-dialog.js';

const PLUGIN_ID = '@tpulab/labextension:remotes';

const NAME_ARGUMENT = (description: string): { args: ReadonlyJSONObject } => ({
  args: { type: 'object', properties: { name: { type: 'string', description } } }
});

export const remotesPlugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Connects to TPU VMs and shows how they are.',
  autoStart: true,
  requires: [IBridgeBackends, ICurrentKernel],
  optional: [
    ILauncher,
    ICommandPalette,
    IStatusBar,
    ISettingRegistry,
    ILayoutRestorer,
    IDefaultFileBrowser,
    ITranslator
  ],
  activate: (
    app: JupyterFrontEnd,
    backends: IBridgeBackends,
    currentKernel: ICurrentKernel,
    launcher: ILauncher | null,
    palette: ICommandPalette | null,
    statusBar: IStatusBar | null,
    settings: ISettingRegistry | null,
    restorer: ILayoutRestorer | null,
    files: IDefaultFileBrowser | null,
    translator: ITranslator | null
  ): void => {
    if (!(backends instanceof Backends)) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('tpulab');
    const actions = new RemoteActions(backends.remotes);
    addCommands(app, { actions, restorer, folder: () => files?.model.path ?? '', trans });
    const category = trans.__('TPULab');
    for (const command of Object.values(CommandIDs)) {
      palette?.addItem({ command, category });
    }
    launcher?.add({ command: CommandIDs.connect, category, rank: 100 });
    const showRemote = (name: string): void => void app.commands.execute(CommandIDs.manage, { name });
    addBanner(app, backends, trans, showRemote);
    if (statusBar) {
      const model = new RemoteStatus(backends.remotes, currentKernel);
      addStatus(statusBar, settings, model, trans, showRemote);
    }
  }
};

interface ICommandParts {
  readonly actions: RemoteActions;
  readonly restorer: ILayoutRestorer | null;
  /** That people look at in the file browser. */
  readonly folder: () => string;
  readonly trans: TranslationBundle;
}

function addCommands(app: JupyterFrontEnd, { actions, restorer, folder, trans }: ICommandParts): void {
  const { commands } = app;
  const tracker = new WidgetTracker<MainAreaWidget>({ namespace: 'tpulab-remotes' });
  commands.addCommand(CommandIDs.connect, {
    label: trans.__('Connect to a TPU VM…'),
    caption: trans.__('Run notebooks on another machine, over ssh'),
    icon: chipIcon,
    describedBy: NAME_ARGUMENT(trans.__('Remote whose progress is shown')),
    execute: args => showConnectDialog({ actions, trans, name: nameIn(args) })
  });
  commands.addCommand(CommandIDs.sync, {
    label: trans.__('Sync Folder to VM…'),
    caption: trans.__('Copy the files of a folder to a remote, or both ways'),
    isEnabled: () => actions.remotes.all.some(({ state }) => state === 'connected'),
    describedBy: NAME_ARGUMENT(trans.__('Remote to sync with')),
    execute: args => showSyncDialog({ remotes: actions.remotes, trans, name: nameIn(args), folder: folder() })
  });
  commands.addCommand(CommandIDs.manage, {
    label: trans.__('Remotes'),
    caption: trans.__('Show all remotes, connect, disconnect, remove'),
    icon: chipIcon,
    describedBy: NAME_ARGUMENT(trans.__('Remote that is shown in full')),
    execute: args => {
      // Opened anew, so that the remote that was asked for is the one that is unfolded.
      tracker.currentWidget?.dispose();
      const content = ReactWidget.create(
        createElement(ManagerView, {
          actions,
          trans,
          initial: nameIn(args),
          onAdd: () => void commands.execute(CommandIDs.connect),
          onSync: name => void commands.execute(CommandIDs.sync, { name })
        })
      );
      const widget = new MainAreaWidget({ content });
      widget.id = 'tpulab-remotes';
      widget.title.label = trans.__('Remotes');
      widget.title.icon = chipIcon;
      widget.title.closable = true;
      app.shell.add(widget, 'main');
      void tracker.add(widget);
      app.shell.activateById(widget.id);
    }
  });
  actions.remotes.changed.connect(() => commands.notifyCommandChanged(CommandIDs.sync));
  void restorer?.restore(tracker, { command: CommandIDs.manage, name: () => 'remotes' });
}

function addBanner(
  app: JupyterFrontEnd,
  { remotes }: Backends,
  trans: TranslationBundle,
  onShow: (name: string) => void
): void {
  let banner: Widget | null = null;
  const update = (): void => {
    const isWanted = remotes.all.some(({ notice, state }) => notice !== null && state !== 'preempted');
    if (isWanted && banner === null) {
      const onCheckpoint = (remote: string): void =>
        void app.commands.execute(RunCommandIDs.checkpoint, { remote });
      // The header gives its widgets what they need at least, and knows nothing of text.
      const onHeight = (heightPx: number): void => {
        if (banner !== null) {
          banner.node.style.minHeight = `${heightPx}px`;
          banner.parent?.fit();
        }
      };
      const props = { remotes, trans, onShow, onCheckpoint, onHeight };
      banner = ReactWidget.create(createElement(NoticeBanner, props));
      banner.id = 'tpulab-notices';
      app.shell.add(banner, 'header', { rank: 0 });
    } else if (!isWanted && banner !== null) {
      banner.dispose();
      banner = null;
    }
  };
  update();
  remotes.changed.connect(update);
}

function addStatus(
  statusBar: IStatusBar,
  settings: ISettingRegistry | null,
  model: RemoteStatus,
  trans: TranslationBundle,
  onShow: (name: string) => void
): void {
  const shown = { isWanted: true };
  const shownChanged = new Signal<typeof shown, void>(shown);
  model.changed.connect(() => shownChanged.emit());
  statusBar.registerStatusItem(PLUGIN_ID, {
    item: ReactWidget.create(createElement(RemoteItem, { model, trans, onShow: ({ name }) => onShow(name) })),
    align: 'left',
    rank: 4.5,
    isActive: () => shown.isWanted && model.shown !== null,
    activeStateChanged: shownChanged
  });
  const apply = (loaded: ISettingRegistry.ISettings): void => {
    shown.isWanted = loaded.composite['showRemote'] !== false;
    shownChanged.emit();
  };
  settings?.load(PLUGIN_ID).then(
    loaded => {
      apply(loaded);
      loaded.changed.connect(apply);
    },
    // Without settings, or with broken ones, the item is shown.
    () => undefined
  );
}

function nameIn(args: ReadonlyPartialJSONObject): string | null {
  return typeof args['name'] === 'string' ? args['name'] : null;
}
