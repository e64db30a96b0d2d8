/** A remote as a backend: its own gateway, which the bridge on this machine passes on under `machines/NAME/`. */
import { URLExt } from '@jupyterlab/coreutils';
import type { Remote } from '@tpulab/protocol';
import { remotePlace } from './spec-names.js';
import { BackendError } from './backend-error.js';
import type { BridgeBackend } from './bridge-backend.js';
import { GatewayBackend, type IGatewayBackendOptions, type IRefusal } from './gateway-backend.js';
import { acceleratorName } from './remote-names.js';

interface IRemoteBackendOptions extends IGatewayBackendOptions {
  readonly bridge: BridgeBackend;
  readonly name: string;
  /** The remote as the hub last reported it; null while unknown. */
  remote(): Remote | null;
  /** Requests an immediate attempt from the hub. Never throws. */
  connect(): void;
}

export class RemoteBackend extends GatewayBackend {
  readonly remoteName: string;

  constructor(private readonly remoteOptions: IRemoteBackendOptions) {
    const { bridge, name, remote } = remoteOptions;
    super(
      remotePlace(name),
      name,
      {
        candidates: () => {
          const hub = bridge.address;
          if (hub === null) {
            return Promise.reject(
              new BackendError('bridge.notReady', 'The TPULab server has no address yet.')
            );
          }
          return Promise.resolve([{ ...hub, url: URLExt.join(hub.url, 'machines', name, '/') }]);
        },
        refusal: () => refusalOf(name, remote())
      },
      remoteOptions
    );
    this.remoteName = name;
  }

  get remote(): Remote | null {
    return this.remoteOptions.remote();
  }

  /** `my-tpu (v5e-8)`. */
  get displayName(): string {
    const accelerator = this.remote === null ? null : acceleratorName(this.remote);
    return accelerator === null ? this.remoteName : `${this.remoteName} (${accelerator})`;
  }

  remoteChanged(): void {
    const isConnected = this.remote?.state === 'connected';
    const refusal = refusalOf(this.remoteName, this.remote);
    if (
      isConnected !== (this.state === 'ok') ||
      this.nextRetryAt !== (this.remote?.nextAttemptAt ?? null) ||
      (refusal !== null && refusal.error.message !== this.lastError?.message)
    ) {
      this.checkNow();
    } else {
      this.changedState();
    }
  }

  /** Also connects a remote that was never connected: its kernels were requested. */
  connect(): void {
    this.remoteOptions.connect();
  }

  override reconnectNow(): void {
    // A remote that the user has disconnected stays disconnected until the user connects it.
    if (this.remote?.state === 'reconnecting') this.remoteOptions.connect();
    super.reconnectNow();
  }
}

function refusalOf(name: string, remote: Remote | null): IRefusal | null {
  if (remote?.state === 'connected') return null;
  return {
    error: new BackendError(
      remote?.state === 'preempted' ? 'remote.preempted' : 'remote.down',
      stateSentence(name, remote)
    ),
    // Until the hub has reported, a list of kernels may wait for it.
    state: remote === null ? 'starting' : 'down',
    retryAt: remote?.nextAttemptAt ?? null
  };
}

function stateSentence(name: string, remote: Remote | null): string {
  switch (remote?.state) {
    case 'connecting':
    case 'setting-up':
      return `${name} is being connected.`;
    case 'queued':
      return `${name} waits for Google Cloud; it is connected as soon as it is ready.`;
    case 'waiting':
      return `${name} waits for your answer: open the list of machines.`;
    case 'reconnecting':
      return `The connection to ${name} was lost; it is being tried again.`;
    case 'preempted':
      return `${name} was preempted.`;
    case 'failed':
      return remote.error?.message ?? `${name} cannot be connected; open the list of machines to see why.`;
    default:
      return `${name} is not connected.`;
  }
}
