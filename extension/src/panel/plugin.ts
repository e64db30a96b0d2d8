/** Puts the panel into the right side area, with its commands and settings. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, showErrorMessage, WidgetTracker } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Widget } from '@lumino/widgets';
import { createElement } from 'react';
import type { CodeLocation } from '@tpulab/protocol';
import { DrawLoop } from '../ui/draw-loop.js';
import { CommandIDs } from '../commands.js';
import { IBridgeBackends } from '../backends/tokens.js';
import { IBridgeEvents } from '../events/tokens.js';
import { RunsPage } from '../runs/runs-page.js';
import { ICurrentKernel } from '../tokens.js';
import { PageActions } from './actions.js';
import { type Memory, showAtFirstUse } from './first-use.js';
import { findCell, goToCell } from './go-to-cell.js';
import { chipIcon } from '../ui/icon.js';
import { sure } from '../ui/sure.js';
import type { Remedy } from './situation.js';
import { settingsFrom } from './settings.js';
import { DEFAULT_SETTINGS, type PanelSettings, PanelState } from './state.js';
import { PanelWidget } from './widget.js';
import { trans, translateWith } from '../text/trans.js';

const PLUGIN_ID = '@tpulab/labextension:panel';
const PANEL_ID = 'tpulab-panel';
const DASHBOARD_ID = 'tpulab-dashboard';
const RUNS_ID = 'tpulab-runs';

const NO_ARGUMENTS = { args: { type: 'object', properties: {}, additionalProperties: false } } as const;

export const panelPlugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Shows devices, steps and compilations of the current kernel in a side panel.',
  autoStart: true,
  requires: [ICurrentKernel, IBridgeEvents, IBridgeBackends],
  optional: [INotebookTracker, ISettingRegistry, ICommandPalette, ILayoutRestorer, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    currentKernel: ICurrentKernel,
    events: IBridgeEvents,
    backends: IBridgeBackends,
    notebooks: INotebookTracker | null,
    settings: ISettingRegistry | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    translator: ITranslator | null
  ): void => {
    translateWith(translator);
    const loop = new DrawLoop(window);
    const shown = new ShownSettings();
    const actions = new PageActions({
      sessions: app.serviceManager.sessions,
      kernels: app.serviceManager.kernels,
      openDocument: path => void app.commands.execute('docmanager:open', { path }),
      currentKernel,
      events,
      api: backends.remotes.api,
      notebooks,
      confirm: sure,
      showFailure: (title, why) => void showErrorMessage(title, why)
    });
    const create = (): { panel: PanelWidget; state: PanelState } => {
      const state = new PanelState(currentKernel, events);
      shown.add(state);
      const panel = new PanelWidget({
        state,
        loop,
        actions,
        onRemedy: remedy => applyRemedy(app, remedy),
        onGoTo: location => goToAction(app, notebooks, location)
      });
      panel.title.icon = chipIcon;
      panel.node.setAttribute('role', 'region');
      panel.disposed.connect(() => {
        shown.remove(state);
        state.dispose();
      });
      return { panel, state };
    };
    const { panel, state } = create();
    panel.id = PANEL_ID;
    panel.title.caption = trans.__('TPULab: devices, steps and runs');
    panel.node.setAttribute('aria-label', trans.__('TPULab'));
    const firstUse = showAtFirstUse(currentKernel, pageMemory(), () => showPanel(app));
    panel.disposed.connect(() => {
      firstUse.dispose();
      actions.dispose();
      loop.dispose();
    });
    app.shell.add(panel, 'right', { rank: 300, type: 'TPULab' });
    restorer?.add(panel, PANEL_ID);
    const parts = { app, palette, restorer };
    addMainArea(parts, {
      id: DASHBOARD_ID,
      tracker: new WidgetTracker({ namespace: DASHBOARD_ID }),
      command: CommandIDs.openDashboard,
      label: trans.__('Open the Dashboard'),
      caption: trans.__('Devices, steps and runs side by side, in the main area'),
      title: trans.__('TPULab'),
      name: trans.__('TPULab dashboard'),
      mode: 'split-right',
      create: () => create().panel
    });
    addMainArea(parts, {
      id: RUNS_ID,
      tracker: new WidgetTracker({ namespace: RUNS_ID }),
      command: CommandIDs.openRuns,
      label: trans.__('Open the Runs'),
      caption: trans.__('All runs of this machine and its remotes: search, overlay and compare'),
      title: trans.__('Runs'),
      name: trans.__('TPULab runs'),
      mode: 'tab-after',
      create: () =>
        ReactWidget.create(
          createElement(RunsPage, {
            ...{ backends, loop, isReadOnly: false },
            onOpenDocument: path => void app.commands.execute('docmanager:open', { path }),
            onGoTo: location => goToAction(app, notebooks, location)
          })
        )
    });
    addCommands(app, { state, events, notebooks, palette });
    if (settings) {
      void followSettings(settings, shown, loop);
    }
  }
};

interface CommandParts {
  readonly state: PanelState;
  readonly events: IBridgeEvents;
  readonly notebooks: INotebookTracker | null;
  readonly palette: ICommandPalette | null;
}

function addCommands(app: JupyterFrontEnd, { state, events, notebooks, palette }: CommandParts): void {
  const { commands } = app;
  commands.addCommand(CommandIDs.showPanel, {
    label: trans.__('Show Devices and Steps'),
    caption: trans.__('Show the devices, steps and compilations of the current kernel'),
    icon: chipIcon,
    describedBy: NO_ARGUMENTS,
    execute: () => app.shell.activateById(PANEL_ID)
  });
  commands.addCommand(CommandIDs.reconnect, {
    label: trans.__('Reconnect to the TPULab Server Now'),
    caption: trans.__('Retry now instead of waiting'),
    describedBy: NO_ARGUMENTS,
    execute: () => {
      events.reconnectNow();
      if (state.current.kind === 'bridge') {
        state.current.backend.reconnectNow();
      }
    }
  });
  commands.addCommand(CommandIDs.goToCell, {
    label: trans.__('Go to a Line of a Cell'),
    describedBy: {
      args: {
        type: 'object',
        properties: {
          cellId: { type: 'string', description: trans.__('Id of the cell, in any open notebook') },
          line: { type: 'integer', minimum: 1, description: trans.__('Line in the cell, from 1') }
        },
        required: ['cellId']
      }
    },
    execute: async args => {
      const { cellId, line } = args;
      if (notebooks && typeof cellId === 'string') {
        const place = { cellId, line: typeof line === 'number' ? line : null };
        await goToCell(notebooks, id => app.shell.activateById(id), place);
      }
    }
  });
  const category = trans.__('TPULab');
  for (const command of [CommandIDs.showPanel, CommandIDs.reconnect]) {
    palette?.addItem({ command, category });
  }
}

/** Null in a browser that has no storage for this page. */
function pageMemory(): Memory | null {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}

/** Opens the panel without moving the focus. */
function showPanel(app: JupyterFrontEnd): void {
  void app.restored.then(() => {
    const inUse = app.shell.currentWidget;
    app.shell.activateById(PANEL_ID);
    if (inUse) {
      app.shell.activateById(inUse.id);
    }
  });
}

function applyRemedy(app: JupyterFrontEnd, remedy: Remedy): void {
  if (remedy === 'reconnect') {
    void app.commands.execute(CommandIDs.reconnect);
    return;
  }
  const command = ['notebook:change-kernel', 'console:change-kernel'].find(
    id => app.commands.hasCommand(id) && app.commands.isEnabled(id)
  );
  if (command) {
    void app.commands.execute(command);
  }
}

/** Null where the cell is in no open notebook, so that no impossible action is offered. */
function goToAction(
  app: JupyterFrontEnd,
  notebooks: INotebookTracker | null,
  { cellId, line }: CodeLocation
): (() => void) | null {
  if (!notebooks || cellId === null || !findCell(notebooks, cellId)) {
    return null;
  }
  return () => void app.commands.execute(CommandIDs.goToCell, line === null ? { cellId } : { cellId, line });
}

/** The settings of all panels of the page, including panels that are opened later. */
class ShownSettings {
  add(state: PanelState): void {
    this._states.add(state);
    state.settings = this._settings;
  }

  remove(state: PanelState): void {
    this._states.delete(state);
  }

  set(settings: PanelSettings): void {
    this._settings = settings;
    for (const state of this._states) {
      state.settings = settings;
    }
  }

  private readonly _states = new Set<PanelState>();
  private _settings = DEFAULT_SETTINGS;
}

interface MainAreaParts {
  readonly app: JupyterFrontEnd;
  readonly palette: ICommandPalette | null;
  readonly restorer: ILayoutRestorer | null;
}

interface MainAreaPage {
  readonly id: string;
  /** Lives as long as the page. */
  readonly tracker: WidgetTracker<MainAreaWidget>;
  readonly command: string;
  readonly label: string;
  readonly caption: string;
  readonly title: string;
  /** Name for screen readers. */
  readonly name: string;
  readonly mode: 'split-right' | 'tab-after';
  readonly create: () => Widget;
}

/** A page in the main area with a single instance: the panel with its sections side by side, and the runs. */
function addMainArea({ app, palette, restorer }: MainAreaParts, page: MainAreaPage): void {
  const { id, command, label, caption, tracker } = page;
  app.commands.addCommand(command, {
    label,
    caption,
    icon: chipIcon,
    describedBy: NO_ARGUMENTS,
    execute: () => {
      const [open] = tracker.filter(widget => !widget.isDisposed);
      if (open) {
        app.shell.activateById(open.id);
        return;
      }
      const content = page.create();
      const widget = new MainAreaWidget({ content });
      // Lab names every content "main area content" when it is added.
      content.node.setAttribute('role', 'region');
      content.node.setAttribute('aria-label', page.name);
      widget.id = id;
      widget.title.label = page.title;
      widget.title.icon = chipIcon;
      widget.title.closable = true;
      void tracker.add(widget);
      app.shell.add(widget, 'main', { mode: page.mode });
    }
  });
  palette?.addItem({ command, category: trans.__('TPULab') });
  if (restorer) {
    void restorer.restore(tracker, { command, name: () => id });
  }
}

/** Without valid settings, the defaults apply. */
async function followSettings(
  registry: ISettingRegistry,
  shown: ShownSettings,
  loop: DrawLoop
): Promise<void> {
  const apply = ({ composite }: ISettingRegistry.ISettings): void => {
    const settings = settingsFrom(composite);
    shown.set(settings);
    loop.drawsPerSecond = settings.drawsPerSecond;
  };
  try {
    const settings = await registry.load(PLUGIN_ID);
    apply(settings);
    settings.changed.connect(apply);
  } catch {
    loop.drawsPerSecond = DEFAULT_SETTINGS.drawsPerSecond;
  }
}
