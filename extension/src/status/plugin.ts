/** Puts connection and devices of the current kernel into the status bar. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import { createElement } from 'react';
import { CommandIDs } from '../commands.js';
import { IBridgeEvents } from '../events/tokens.js';
import { ICurrentKernel } from '../tokens.js';
import { StatusModel } from './model.js';
import { ConnectionItem, DevicesItem } from './view.js';
import { translateWith } from '../text/trans.js';

const PLUGIN_ID = '@tpulab/labextension:status';

interface Shown {
  connection: boolean;
  devices: boolean;
}

export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Shows connection and devices of the current kernel in the status bar.',
  autoStart: true,
  requires: [ICurrentKernel, IBridgeEvents],
  optional: [IStatusBar, ISettingRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    currentKernel: ICurrentKernel,
    events: IBridgeEvents,
    statusBar: IStatusBar | null,
    settings: ISettingRegistry | null,
    translator: ITranslator | null
  ): void => {
    if (!statusBar) return;
    translateWith(translator);
    const model = new StatusModel(currentKernel, events);
    const shown: Shown = { connection: true, devices: true };
    const shownChanged = new Signal<Shown, void>(shown);
    model.changed.connect(() => shownChanged.emit());
    const run = (id: string) => (): void => void app.commands.execute(id);
    statusBar.registerStatusItem('@tpulab/labextension:connection', {
      item: ReactWidget.create(
        createElement(ConnectionItem, { model, onReconnect: run(CommandIDs.reconnect) })
      ),
      align: 'left',
      rank: 4,
      isActive: () => shown.connection && model.connection.kind !== 'none',
      activeStateChanged: shownChanged
    });
    statusBar.registerStatusItem('@tpulab/labextension:devices', {
      item: ReactWidget.create(createElement(DevicesItem, { model, onShow: run(CommandIDs.showPanel) })),
      align: 'left',
      rank: 5,
      isActive: () => shown.devices && model.telemetry !== null,
      activeStateChanged: shownChanged
    });
    if (settings) void followSettings(settings, shown, shownChanged);
  }
};

/** Without valid settings, both items are shown. */
async function followSettings(
  registry: ISettingRegistry,
  shown: Shown,
  changed: Signal<Shown, void>
): Promise<void> {
  const apply = (settings: ISettingRegistry.ISettings): void => {
    shown.connection = settings.composite['showConnection'] !== false;
    shown.devices = settings.composite['showDevices'] !== false;
    changed.emit();
  };
  try {
    const settings = await registry.load(PLUGIN_ID);
    apply(settings);
    settings.changed.connect(apply);
  } catch {
    changed.emit();
  }
}
