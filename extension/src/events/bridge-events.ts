/** The event streams of all bridges of this page, sorted by kernel. */
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import type { BridgeEvent, RemoteEvent } from '@tpulab/protocol';
import type { IBridgeBackends } from '../backends/tokens.js';
import type { IBridgeEvents } from './tokens.js';
import type { IBackend } from '../tokens.js';
import { EventStream, type StreamSocket, type StreamState } from './event-stream.js';
import { MachineSource } from '../devices/machine-source.js';
import { MachineTelemetry } from '../devices/machine-telemetry.js';
import { KernelTelemetry } from './kernel-telemetry.js';
import type { ParsedFrame } from './parse-frame.js';

/** Beyond this number, kernels that were shut down are dropped, oldest first. */
const MAX_KERNELS = 32;
/** The page's own server has kernels but no events. */
const JUPYTER_BACKEND = 'jupyter';

/** State per backend: its stream while its address is known, and the kernels in its events. */
interface Link {
  readonly backend: IBackend;
  readonly kernels: Set<string>;
  readonly machine: MachineTelemetry;
  readonly machineSource: MachineSource;
  stream: EventStream | null;
  /** The address of `stream`. */
  address: string;
  /** The stream has lost the bridge and not reconnected. */
  wasCut: boolean;
}

export class BridgeEvents implements IBridgeEvents, IDisposable {
  /** @param _onRemote called with the bridge's events about its remotes */
  constructor(
    private readonly _backends: Pick<IBridgeBackends, 'backends' | 'changed'>,
    private readonly _onRemote: (event: RemoteEvent) => void = () => undefined
  ) {
    _backends.changed.connect(this._onBackend, this);
    for (const backend of _backends.backends) {
      this._follow(backend);
    }
  }

  get streamChanged(): ISignal<this, string> {
    return this._streamChanged;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  streamOf(backendId: string): StreamState | null {
    return this._links.get(backendId)?.stream?.state ?? null;
  }

  telemetryOf(kernelId: string): KernelTelemetry {
    let telemetry = this._kernels.get(kernelId);
    if (!telemetry) {
      telemetry = new KernelTelemetry(kernelId);
      this._kernels.set(kernelId, telemetry);
      this._forgetRemoved();
    }
    return telemetry;
  }

  machineOf(backendId: string): MachineTelemetry | null {
    return this._links.get(backendId)?.machine ?? null;
  }

  machineSourceOf(backendId: string): MachineSource | null {
    return this._links.get(backendId)?.machineSource ?? null;
  }

  /** The page is hidden. */
  set isHidden(value: boolean) {
    this._isHidden = value;
    for (const { stream } of this._links.values()) {
      if (stream) {
        stream.isHidden = value;
      }
    }
  }

  reconnectNow(): void {
    for (const { backend, stream } of this._links.values()) {
      stream?.reconnectNow();
      if (backend.state !== 'ok') {
        backend.reconnectNow();
      }
    }
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._backends.changed.disconnect(this._onBackend, this);
    this._links.forEach(release);
    this._links.clear();
    for (const telemetry of this._kernels.values()) {
      telemetry.dispose();
    }
    this._kernels.clear();
    Signal.clearData(this);
  }

  private _onBackend(_: unknown, backend: IBackend): void {
    this._follow(backend);
  }

  private _follow(backend: IBackend): void {
    if (backend.id === JUPYTER_BACKEND) {
      return;
    }
    let link = this._links.get(backend.id);
    if (!this._backends.backends.includes(backend)) {
      // A remote that was removed.
      if (link) {
        release(link);
        this._links.delete(backend.id);
      }
      return;
    }
    if (!link) {
      link = linkTo(backend);
      this._links.set(backend.id, link);
    }
    const address = addressOf(backend);
    if (address !== link.address) {
      link.address = address;
      link.stream?.dispose();
      link.stream = address === '' ? null : this._open(link);
      this._streamChanged.emit(backend.id);
    } else if (backend.state === 'ok') {
      // Its REST API answers again, so there is no reason to wait any longer.
      link.stream?.reconnectNow();
    }
  }

  private _open(link: Link): EventStream {
    const { backend } = link;
    const stream = new EventStream({
      open: () => openSocket(backend),
      since: () => this._since(link),
      onFrame: frame => this._onFrame(link, frame)
    });
    stream.isHidden = this._isHidden;
    stream.stateChanged.connect((_, state) => this._onStream(link, state));
    return stream;
  }

  private _onStream(link: Link, state: StreamState): void {
    if (state.kind === 'live') {
      link.machineSource.refresh();
    }
    if (state.kind === 'live' && (link.wasCut || link.backend.state === 'down')) {
      // The stream is the first to notice that the bridge is back: the kernels need not wait for their timers.
      link.wasCut = false;
      link.backend.reconnectNow();
    }
    if (state.kind === 'waiting') {
      link.wasCut = true;
      for (const kernelId of link.kernels) {
        this._kernels.get(kernelId)?.forgetClients();
      }
    }
    this._streamChanged.emit(link.backend.id);
  }

  private _onFrame(link: Link, frame: ParsedFrame): void {
    if (frame.op !== 'events') {
      return;
    }
    const now = Date.now();
    for (const event of frame.events) {
      if (event.topic === 'remotes') {
        // Events of a remote about its own remotes do not concern this page.
        if (link.backend.id === 'bridge') {
          this._onRemote(event);
        }
        continue;
      }
      if ('machine' in event) {
        link.machine.applySample(event);
        continue;
      }
      link.kernels.add(event.kernelId);
      this._apply(event, now);
    }
  }

  private _apply(event: BridgeEvent, now: number): void {
    const telemetry = this.telemetryOf(event.kernelId);
    switch (event.topic) {
      case 'kernels':
        telemetry.applyState(event);
        return;
      case 'clients':
        telemetry.applyClient(event);
        return;
      default:
        telemetry.applyTelemetry(event, now);
    }
  }

  private _since(link: Link): Record<string, number> {
    const since: Record<string, number> = {};
    for (const kernelId of link.kernels) {
      const seq = this._kernels.get(kernelId)?.lastSeq ?? 0;
      if (seq > 0) {
        since[kernelId] = seq;
      }
    }
    return since;
  }

  private _forgetRemoved(): void {
    for (const [kernelId, telemetry] of this._kernels) {
      if (this._kernels.size <= MAX_KERNELS) {
        return;
      }
      if (telemetry.state?.removed) {
        telemetry.dispose();
        this._kernels.delete(kernelId);
        this._links.forEach(link => link.kernels.delete(kernelId));
      }
    }
  }

  private readonly _links = new Map<string, Link>();
  private readonly _kernels = new Map<string, KernelTelemetry>();
  private readonly _streamChanged = new Signal<this, string>(this);
  private _isHidden = false;
  private _isDisposed = false;
}

function linkTo(backend: IBackend): Link {
  const machine = new MachineTelemetry(backend.id);
  const machineSource = new MachineSource({ machine, settings: () => backend.serverSettings });
  return { backend, kernels: new Set(), machine, machineSource, stream: null, address: '', wasCut: false };
}

function release({ stream, machineSource, machine }: Link): void {
  stream?.dispose();
  machineSource.dispose();
  machine.dispose();
}

function addressOf({ serverSettings }: IBackend): string {
  return serverSettings ? `${serverSettings.wsUrl} ${serverSettings.token}` : '';
}

/** Browsers cannot set headers on a WebSocket, so the token travels in the query. */
function openSocket({ serverSettings }: IBackend): StreamSocket {
  if (!serverSettings) {
    throw new Error('The address of the TPULab server is not known yet.');
  }
  const { wsUrl, token, WebSocket } = serverSettings;
  const url = new URL('bridge/v1/events', wsUrl.endsWith('/') ? wsUrl : `${wsUrl}/`);
  if (token) {
    url.searchParams.set('token', token);
  }
  return new WebSocket(url.href);
}

/** Events of the bridges for as long as the page lives: fewer while it is hidden, and reconnected when the network returns. */
export function eventsOfPage(backends: IBridgeBackends, Events = BridgeEvents): BridgeEvents {
  const events = new Events(backends, event => backends.remotes.apply(event));
  // An offline page notices the network's return before any timer ends.
  window.addEventListener('online', () => events.reconnectNow());
  const check = (): void => {
    events.isHidden = document.visibilityState === 'hidden';
  };
  check();
  document.addEventListener('visibilitychange', check);
  window.addEventListener('pagehide', event => {
    if (!event.persisted) events.dispose();
  });
  return events;
}
