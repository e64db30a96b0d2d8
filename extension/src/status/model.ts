/** The status bar's data about the current kernel. */
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { MachineTelemetry } from '../devices/machine-telemetry.js';
import type { IBridgeEvents } from '../events/tokens.js';
import type { IBackend, ICurrentKernel } from '../tokens.js';
import { type Connection, connectionOf } from './connection.js';
import { Changing } from '../platform/changing.js';

export class StatusModel extends Changing {
  constructor(
    private readonly _currentKernel: ICurrentKernel,
    private readonly _events: IBridgeEvents
  ) {
    super();
    _currentKernel.changed.connect(this._update, this);
    _events.streamChanged.connect(this._update, this);
    this._update();
  }

  get connection(): Connection {
    return this._connection;
  }

  /** Null when the current kernel is not on a bridge. */
  get telemetry(): KernelTelemetry | null {
    return this._telemetry;
  }

  /** The machine of the current kernel; null when the kernel is not on a bridge. */
  get machine(): MachineTelemetry | null {
    const { current } = this._currentKernel;
    return current.kind === 'bridge' ? this._events.machineOf(current.backend.id) : null;
  }

  /** Emitted when connection or kernel have changed. */
  private _update(): void {
    const { current } = this._currentKernel;
    this.follow(current.kind === 'bridge' ? current.backend : null);
    const telemetry = current.kind === 'bridge' ? this._events.telemetryOf(current.kernelId) : null;
    const stream = current.kind === 'bridge' ? this._events.streamOf(current.backend.id) : null;
    if (telemetry !== this._telemetry) {
      this._telemetry?.changed.disconnect(this._update, this);
      this._telemetry = telemetry;
      telemetry?.changed.connect(this._update, this);
      this._connection = connectionOf({ current, stream, telemetry });
      this.changed.emit();
      return;
    }
    const connection = connectionOf({ current, stream, telemetry });
    // Steps arrive ten times a second; the connection rarely changes with them.
    if (JSON.stringify(connection) !== JSON.stringify(this._connection)) {
      this._connection = connection;
      this.changed.emit();
    }
  }

  /** The reason of a lost connection may change during the loss. */
  private follow(backend: IBackend | null): void {
    if (backend !== this._backend) {
      this._backend?.changed.disconnect(this._update, this);
      this._backend = backend;
      backend?.changed.connect(this._update, this);
    }
  }

  private _telemetry: KernelTelemetry | null = null;
  private _backend: IBackend | null = null;
  private _connection: Connection = { kind: 'none' };
}
