/**
 * The kernel servers of this page. JupyterLab's page has its own server, a bridge and remotes behind the bridge; a page
 * served by a bridge has only that bridge and its remotes.
 */
import type { ServerConnection } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { IBackend } from '../tokens.js';
import type { GatewayBackend } from './gateway-backend.js';
import type { JupyterBackend } from './jupyter-backend.js';
import type { KernelSockets } from './numbered-socket.js';
import type { RemoteBackend } from './remote-backend.js';
import type { Remotes } from './remotes-model.js';
import type { SessionRoutes } from './session-routes.js';
import type { Place } from './spec-names.js';
import type { SyncFolders } from './sync-folders.js';

export interface IBridgeBackends {
  /** The Jupyter server first, where the page has one. */
  readonly backends: readonly IBackend[];
  /** The page's own Jupyter server; null for a page that a bridge serves. */
  readonly jupyter: JupyterBackend | null;
  /** Of the Jupyter server, or of the bridge in a page that it serves. */
  readonly serverSettings: ServerConnection.ISettings;
  /** The bridge on this machine: always listed, whatever its state. */
  readonly bridge: GatewayBackend;
  /** The bridge on this machine, and the remotes behind it. */
  readonly gateways: readonly GatewayBackend[];
  readonly remoteBackends: readonly RemoteBackend[];
  /** The bridge's data about its remotes. */
  readonly remotes: Remotes;
  /** The synced folders of each remote. */
  readonly syncFolders: SyncFolders;
  /** The places of sessions and kernels; shared by the kernel and the session manager. */
  readonly routes: SessionRoutes;
  /** Emitted with the backend after it has changed. */
  readonly changed: ISignal<unknown, IBackend>;
  /** A remote has become known; remotes known from the start are in `gateways`. */
  readonly gatewayAdded: ISignal<unknown, GatewayBackend>;
  /** Emitted while the backend still works; it is disposed afterwards. */
  readonly gatewayRemoved: ISignal<unknown, GatewayBackend>;
  /** False once a part of the extension has failed: then the page has only the Jupyter server's kernels. */
  readonly isUsable: boolean;
  disable(cause: unknown): void;
  gateway(place: Place): GatewayBackend | null;
  /** The backend of a kernel; null when no list has shown this kernel. Kernel ids are the backend's. */
  backendOf(kernelId: string): IBackend | null;
  /** True for kernelspec names that start a kernel on the bridge or on a remote (`tpulab-*`, `bridge/*`, `remote/*`). */
  isBridgeSpec(name: string): boolean;
  /** The backend at which a kernelspec name starts a kernel; null for the name of an unknown remote. */
  backendOfSpec(name: string): IBackend | null;
  /** Where a kernelspec name starts a kernel. The bridge's own list decides; a `tpulab-*` spec may also be installed by hand. */
  specPlace(name: string): Place;
  specsListed(place: Place, names: Iterable<string>): void;
  /** The sockets of a kernel's connections; null for a kernel of the page's own server. */
  socketsOf(kernelId: string, specName: string): KernelSockets | null;
}

export const IBridgeBackends = new Token<IBridgeBackends>(
  '@tpulab/labextension:IBridgeBackends',
  'The kernel servers behind this page and their states.'
);
