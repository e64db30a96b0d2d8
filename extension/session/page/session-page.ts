/** The page without its views: built once when the address and the token are known. */
import { pageStorage } from '../../src/platform/page-storage.js';
import { GatewayBackend } from '../../src/backends/gateway-backend.js';
import { ContentsManager } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';
import { Backends } from '../../src/backends/backends.js';
import { fixedBridgeSettings } from '../../src/backends/bridge-settings.js';
import { CurrentKernelModel } from '../../src/panel/current-model.js';
import { BridgeEvents, eventsOfPage } from '../../src/events/bridge-events.js';
import { PanelState } from '../../src/panel/state.js';
import { StatusModel } from '../../src/status/model.js';
import { BridgeDrive } from '../files/drive.js';
import type { NotebookStore } from '../notebook/saving.js';
import { type Managers, pageManagers } from '../notebook/managers.js';
import type { Access } from './access.js';
import { trans } from '../text.js';

class PageBackend extends GatewayBackend {}

/** A reader receives events of the machine, and may not request who else uses it. */
class ReaderEvents extends BridgeEvents {
  override machineSourceOf(): null {
    return null;
  }
}

export class SessionPage {
  readonly backends: Backends;
  readonly drive: BridgeDrive;
  /** Storage of this page's notebook: the drive, or the browser for a browser file. */
  store: NotebookStore;
  readonly managers: Managers;
  readonly events: BridgeEvents;
  readonly current: CurrentKernelModel;
  readonly status: StatusModel;
  readonly panelState: PanelState;
  readonly commands = new CommandRegistry();

  constructor(
    readonly gateway: string,
    readonly token: string,
    readonly access: Access
  ) {
    this.backends = pageBackends(gateway, token);
    this.drive = new BridgeDrive(fixedBridgeSettings({ url: gateway, token }));
    this.store = this.drive;
    const contents = new ContentsManager({
      defaultDrive: this.drive,
      serverSettings: this.drive.serverSettings
    });
    this.managers = pageManagers(this.backends, contents);
    this.events = eventsOfPage(this.backends, access.isReadOnly ? ReaderEvents : BridgeEvents);
    this.current = new CurrentKernelModel(this.backends);
    this.status = new StatusModel(this.current, this.events);
    this.panelState = new PanelState(this.current, this.events);
    window.addEventListener('online', () => this.reconnectNow());
    // While the user types in a field of the page itself, letters are not shortcuts.
    document.addEventListener('keydown', event => this.commands.processKeydownEvent(event), true);
  }

  reconnectNow(): void {
    this.events.reconnectNow();
    for (const gateway of this.backends.gateways) gateway.reconnectNow();
  }
}

/** The kernel servers of this page: the gateway that serves it, and the remotes behind the gateway. */
function pageBackends(gateway: string, token: string): Backends {
  // Its address is always the page's own.
  const bridge = new PageBackend(
    'bridge',
    trans.__('TPULab server'),
    { candidates: async () => [{ url: gateway, token }], refusal: () => null },
    {}
  );
  bridge.start();
  return new Backends(null, bridge, { storage: pageStorage() });
}
