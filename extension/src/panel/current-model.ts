/** The kernel of the active notebook or console, and the place of that kernel. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import type { IBridgeBackends } from '../backends/tokens.js';
import type { CurrentKernel, IBackend, ICurrentKernel } from '../tokens.js';
import { Changing } from '../platform/changing.js';

/** The relevant part of a session context. */
export type FollowedContext = Pick<
  ISessionContext,
  | 'session'
  | 'name'
  | 'kernelDisplayName'
  | 'kernelChanged'
  | 'connectionStatusChanged'
  | 'statusChanged'
  | 'propertyChanged'
  | 'disposed'
>;

const NONE: CurrentKernel = { kind: 'none' };

/** Follows one session context at a time. Emits `changed` when any field of `current` is different. */
export class CurrentKernelModel extends Changing implements ICurrentKernel {
  constructor(private readonly _backends: Pick<IBridgeBackends, 'changed' | 'backendOf' | 'backendOfSpec'>) {
    super();
    _backends.changed.connect(this._update, this);
  }

  get current(): CurrentKernel {
    return this._current;
  }

  /** Connection of the current kernel; null when it has none. */
  get kernel(): Kernel.IKernelConnection | null {
    return this._context?.session?.kernel ?? null;
  }

  follow(context: FollowedContext | null): void {
    if (context === this._context) {
      return;
    }
    this._release();
    this._context = context;
    if (context) {
      context.kernelChanged.connect(this._update, this);
      context.connectionStatusChanged.connect(this._update, this);
      context.statusChanged.connect(this._update, this);
      context.propertyChanged.connect(this._update, this);
      context.disposed.connect(this._onContextDisposed, this);
    }
    this._update();
  }

  override dispose(): void {
    this._release();
    super.dispose();
  }

  private _onContextDisposed(): void {
    this.follow(null);
  }

  private _release(): void {
    const context = this._context;
    if (context) {
      context.kernelChanged.disconnect(this._update, this);
      context.connectionStatusChanged.disconnect(this._update, this);
      context.statusChanged.disconnect(this._update, this);
      context.propertyChanged.disconnect(this._update, this);
      context.disposed.disconnect(this._onContextDisposed, this);
      this._context = null;
    }
  }

  private _update(): void {
    const next = this._read();
    if (!same(this._current, next)) {
      this._current = next;
      this.changed.emit();
    }
  }

  private _read(): CurrentKernel {
    const context = this._context;
    if (!context) {
      return NONE;
    }
    const document = context.name;
    const kernel = context.session?.kernel;
    if (!kernel) {
      return { kind: 'no-kernel', document };
    }
    const kernelName = context.kernelDisplayName;
    const backend = this._backendOf(kernel);
    if (!backend) {
      return { kind: 'local', document, kernelName };
    }
    return {
      kind: 'bridge',
      document,
      kernelName,
      kernelId: kernel.id,
      clientId: kernel.clientId,
      connection: kernel.connectionStatus,
      status: kernel.status,
      backend
    };
  }

  /** A newly started kernel is in no list yet: then its name decides. */
  private _backendOf(kernel: Kernel.IKernelConnection): IBackend | null {
    const backend = this._backends.backendOf(kernel.id) ?? this._backends.backendOfSpec(kernel.name);
    return backend && backend.id !== 'jupyter' ? backend : null;
  }

  private _context: FollowedContext | null = null;
  private _current: CurrentKernel = NONE;
}

function same(a: CurrentKernel, b: CurrentKernel): boolean {
  const keys = Object.keys(a) as (keyof CurrentKernel)[];
  return keys.length === Object.keys(b).length && keys.every(key => a[key] === b[key]);
}
