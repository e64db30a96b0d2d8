/** Adds remotes to Lab: commands, launcher cards, a tab that lists them, the status bar, and a banner for announcements of the cloud. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import type { ICodeCellModel } from '@jupyterlab/cells';
import { PathExt } from '@jupyterlab/coreutils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { ReadonlyJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { DisposableSet } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';
import { createElement } from 'react';
import type { Remote } from '@tpulab/protocol';
import { remoteOfPlace, remotePlace, splitSpecName } from '../backends/spec-names.js';
import { CATEGORY_RANK } from '../ui/category-rank.js';
import { NoticePlace } from '../ui/notebook-notice.js';
import { connectIcon, machineIcon } from '../ui/icon.js';
import { IBridgeBackends } from '../backends/tokens.js';
import { ICurrentKernel } from '../tokens.js';
import { RemoteActions } from './actions.js';
import { remoteCards } from './state-text.js';
import { CommandIDs } from '../commands.js';
import { showConnectDialog } from './dialog/connect-dialog.js';
import { ManagerView } from './manager-view.js';
import { missingFile } from './missing-file.js';
import type { Remotes } from '../backends/remotes-model.js';
import { NoticeBanner } from './notice-view.js';
import type { IConnectPage } from './dialog/remote-props.js';
import { RemoteStatus } from './status-model.js';
import { RemoteItem } from './status-view.js';
import { showSyncDialog } from './sync-dialog.js';
import { waitForSpec } from './open-notebook.js';
import { trans, translateWith } from '../text/trans.js';

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
    INotebookTracker,
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
    notebooks: INotebookTracker | null,
    translator: ITranslator | null
  ): void => {
    translateWith(translator);
    const actions = new RemoteActions(backends.remotes);
    const folder = (): string => files?.model.path ?? '';
    const page = connectPage({ app, backends, notebooks, folder });
    addCommands(app, { actions, page, restorer, folder });
    app.commands.addCommand(CommandIDs.documentation, {
      label: trans.__('TPULab Documentation'),
      caption: trans.__('Open the documentation of TPULab in a new tab'),
      describedBy: { args: {} },
      isEnabled: () => backends.bridge.serverSettings !== null,
      execute: () => {
        const settings = backends.bridge.serverSettings;
        if (settings !== null) window.open(new URL('docs/', settings.baseUrl), '_blank', 'noopener');
      }
    });
    if (notebooks) watchMissingFiles(notebooks, page);
    const category = trans.__('TPULab');
    for (const command of [
      CommandIDs.connect,
      CommandIDs.manage,
      CommandIDs.sync,
      CommandIDs.documentation
    ]) {
      palette?.addItem({ command, category });
    }
    if (launcher) {
      launcher.add({ command: CommandIDs.connect, category, categoryRank: CATEGORY_RANK, rank: 100 });
      addCards(launcher, actions.remotes, category);
    }
    const showRemote = (name: string): void => void app.commands.execute(CommandIDs.manage, { name });
    addBanner(app, backends, showRemote);
    if (statusBar) {
      const model = new RemoteStatus(backends.remotes, currentKernel);
      addStatus(statusBar, settings, model, showRemote);
    }
  }
};

interface ICommandParts {
  readonly actions: RemoteActions;
  readonly page: IConnectPage;
  readonly restorer: ILayoutRestorer | null;
  /** The current folder of the file browser. */
  readonly folder: () => string;
}

function addCommands(app: JupyterFrontEnd, { actions, page, restorer, folder }: ICommandParts): void {
  const { commands } = app;
  const tracker = new WidgetTracker<MainAreaWidget>({ namespace: 'tpulab-remotes' });
  commands.addCommand(CommandIDs.connect, {
    label: trans.__('Connect to a TPU…'),
    caption: trans.__('Run notebooks on a TPU VM or on any other machine, over ssh'),
    icon: connectIcon,
    describedBy: NAME_ARGUMENT(trans.__('Machine to show progress for')),
    execute: args => showConnectDialog({ actions, page, name: nameIn(args) })
  });
  commands.addCommand(CommandIDs.open, {
    label: args => textIn(args, 'label') ?? trans.__('Open a Machine'),
    caption: args => textIn(args, 'caption') ?? '',
    icon: machineIcon,
    describedBy: {
      args: {
        type: 'object',
        properties: {
          name: { type: 'string', description: trans.__('Machine to connect to') },
          label: { type: 'string', description: trans.__('Its name and state, on a card') },
          caption: { type: 'string', description: trans.__('What the card does') }
        },
        required: ['name']
      }
    },
    execute: async args => {
      const name = nameIn(args);
      const state = name === null ? null : actions.remotes.get(name)?.state;
      if (name !== null && (state === 'disconnected' || state === 'preempted')) await actions.connect(name);
      await commands.execute(CommandIDs.connect, { ...(name !== null && { name }) });
    }
  });
  commands.addCommand(CommandIDs.sync, {
    label: trans.__('Copy Folder…'),
    caption: trans.__('Copy a folder to or from a machine'),
    isEnabled: () => actions.remotes.all.some(({ state }) => state === 'connected'),
    describedBy: {
      args: {
        type: 'object',
        properties: {
          name: { type: 'string', description: trans.__('Machine to copy to or from') },
          folder: {
            type: 'string',
            description: trans.__('Folder to copy; default: the folder of the file browser')
          }
        }
      }
    },
    execute: args =>
      showSyncDialog({
        remotes: actions.remotes,
        name: nameIn(args),
        folder: textIn(args, 'folder') ?? folder()
      })
  });
  commands.addCommand(CommandIDs.manage, {
    label: trans.__('Machines'),
    caption: trans.__('Show all machines, connect, disconnect, remove'),
    icon: machineIcon,
    describedBy: NAME_ARGUMENT(trans.__('Machine to show in full')),
    execute: args => {
      // Reopened, so that the requested remote is unfolded.
      tracker.currentWidget?.dispose();
      const content = ReactWidget.create(
        createElement(ManagerView, {
          actions,
          initial: nameIn(args),
          onAdd: () => void commands.execute(CommandIDs.connect),
          onShow: name => void commands.execute(CommandIDs.connect, { name }),
          onSync: name => void commands.execute(CommandIDs.sync, { name })
        })
      );
      const widget = new MainAreaWidget({ content });
      widget.id = 'tpulab-remotes';
      widget.title.label = trans.__('Machines');
      widget.title.icon = machineIcon;
      widget.title.closable = true;
      app.shell.add(widget, 'main');
      void tracker.add(widget);
      app.shell.activateById(widget.id);
    }
  });
  actions.remotes.changed.connect(() => commands.notifyCommandChanged(CommandIDs.sync));
  void restorer?.restore(tracker, { command: CommandIDs.manage, name: () => 'remotes' });
}

/** Cards show the state of a remote, so they are rebuilt when it changes. */
function addCards(launcher: ILauncher, remotes: Remotes, category: string): void {
  let cards = new DisposableSet();
  let shown = '';
  const update = (): void => {
    const wanted = remoteCards(remotes.all, Date.now());
    if (JSON.stringify(wanted) === shown) return;
    shown = JSON.stringify(wanted);
    cards.dispose();
    cards = DisposableSet.from(
      wanted.map((card, index) =>
        launcher.add({
          command: CommandIDs.open,
          args: { ...card },
          category,
          categoryRank: CATEGORY_RANK,
          rank: 50 + index
        })
      )
    );
  };
  update();
  remotes.changed.connect(update);
}

/** A cell on a remote that does not find a file gets the action that copies it there. */
function watchMissingFiles(notebooks: INotebookTracker, page: IConnectPage): void {
  const places = new WeakMap<object, { readonly place: NoticePlace; readonly cell: string }>();
  NotebookActions.executed.connect((_, { notebook, cell }) => {
    const panel = notebooks.find(({ content }) => content === notebook);
    const spec = panel?.sessionContext.session?.kernel?.name;
    const name = spec === undefined ? null : remoteOfPlace(splitSpecName(spec).place);
    const path =
      name === null ? null : missingFile((cell.model as Partial<ICodeCellModel>).outputs?.toJSON() ?? []);
    if (panel === undefined) return;
    const shownHere = places.get(panel);
    if (name === null || path === null) {
      if (shownHere?.cell === cell.model.id) shownHere.place.clear();
      return;
    }
    const place = shownHere?.place ?? new NoticePlace(panel.contentHeader);
    places.set(panel, { place, cell: cell.model.id });
    place.show({
      text: trans.__('%1 was not found on %2. Kernels there see only files of that machine.', path, name),
      actions: [
        {
          label: trans.__('Copy this folder…'),
          onClick: () => page.sync(name, PathExt.dirname(panel.context.path))
        }
      ]
    });
  });
}

function addBanner(app: JupyterFrontEnd, { remotes }: IBridgeBackends, onShow: (name: string) => void): void {
  let banner: Widget | null = null;
  const update = (): void => {
    const isWanted = remotes.all.some(({ notice, state }) => notice !== null && state !== 'preempted');
    if (isWanted && banner === null) {
      const onCheckpoint = (remote: string): void =>
        void app.commands.execute(CommandIDs.checkpoint, { remote });
      // The header gives its widgets their minimum size, and ignores text.
      const onHeight = (heightPx: number): void => {
        if (banner !== null) {
          banner.node.style.minHeight = `${heightPx}px`;
          banner.parent?.fit();
        }
      };
      const props = { remotes, onShow, onCheckpoint, onHeight };
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
  onShow: (name: string) => void
): void {
  const shown = { isWanted: true };
  const shownChanged = new Signal<typeof shown, void>(shown);
  model.changed.connect(() => shownChanged.emit());
  statusBar.registerStatusItem(PLUGIN_ID, {
    item: ReactWidget.create(createElement(RemoteItem, { model, onShow: ({ name }) => onShow(name) })),
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
    // Without valid settings, the item is shown.
    () => undefined
  );
}

function nameIn(args: ReadonlyPartialJSONObject): string | null {
  return textIn(args, 'name');
}

function textIn(args: ReadonlyPartialJSONObject, key: string): string | null {
  const value = args[key];
  return typeof value === 'string' ? value : null;
}

/** A remote that the hub reports as connected is one or two round trips away. */
const SERVING_WAIT_MS = 30_000;
/** The first lesson, in the current folder. */
const LESSON = '00-getting-started.ipynb';

interface IConnectPageParts {
  readonly app: JupyterFrontEnd;
  readonly backends: IBridgeBackends;
  readonly notebooks: INotebookTracker | null;
  /** Folder of the file browser. */
  readonly folder: () => string;
}

function connectPage({ app, backends, notebooks, folder }: IConnectPageParts): IConnectPage {
  const { commands, serviceManager, shell } = app;
  const shown = (): INotebookTracker['currentWidget'] => {
    const current = notebooks?.currentWidget ?? null;
    return current !== null && current === shell.currentWidget ? current : null;
  };
  return {
    folder,
    sync: (name, synced) => void commands.execute(CommandIDs.sync, { name, folder: synced }),
    notebook: async () => {
      const current = shown();
      if (current !== null) return current.context.path;
      const lesson = folder() === '' ? LESSON : `${folder()}/${LESSON}`;
      const found = await serviceManager.contents.get(lesson, { content: false }).catch(() => null);
      return found === null ? null : lesson;
    },
    open: async (remote: Remote, path: string | null) => {
      await backends.gateway(remotePlace(remote.name))?.serving(SERVING_WAIT_MS);
      const name = await waitForSpec(
        remote,
        serviceManager.kernelspecs,
        SERVING_WAIT_MS,
        trans.__('%1 lists no kernels; see its log.', remote.name)
      );
      const current = shown();
      if (current !== null && current.context.path === path) {
        await current.sessionContext.changeKernel({ name });
        shell.activateById(current.id);
      } else if (path === null) {
        await commands.execute('notebook:create-new', { cwd: folder(), kernelName: name });
      } else {
        await commands.execute('docmanager:open', { path, factory: 'Notebook', kernel: { name } });
      }
    }
  };
}
