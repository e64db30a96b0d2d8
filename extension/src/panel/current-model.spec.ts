import type { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { beforeEach, describe, expect, it } from 'vitest';
import type { IBackend } from '../tokens.js';
import { CurrentKernelModel, type FollowedContext } from './current-model.js';

class Context {
  name = 'a.ipynb';
  kernelDisplayName = 'JAX (XLA) on this machine';
  session: { kernel: Partial<Kernel.IKernelConnection> | null } | null = null;
  readonly kernelChanged = new Signal<this, unknown>(this);
  readonly connectionStatusChanged = new Signal<this, unknown>(this);
  readonly statusChanged = new Signal<this, unknown>(this);
  readonly propertyChanged = new Signal<this, unknown>(this);
  readonly disposed = new Signal<this, void>(this);

  start(id: string, name: string): void {
    this.session = {
      kernel: { id, name, clientId: `c-${id}`, connectionStatus: 'connected', status: 'idle' }
    };
    this.kernelChanged.emit(undefined);
  }

  get followed(): FollowedContext {
    return this as unknown as FollowedContext;
  }
}

class Backends {
  readonly bridge = { id: 'bridge' } as IBackend;
  readonly jupyter = { id: 'jupyter' } as IBackend;
  readonly backends = [this.jupyter, this.bridge];
  readonly changed = new Signal<this, IBackend>(this);
  readonly homes = new Map<string, IBackend>();
  backendOf = (id: string): IBackend | null => this.homes.get(id) ?? null;
  isBridgeSpec = (name: string): boolean => name.startsWith('tpulab-');
  backendOfSpec = (name: string): IBackend | null => (this.isBridgeSpec(name) ? this.bridge : null);
}

describe('CurrentKernelModel', () => {
  let backends: Backends;
  let model: CurrentKernelModel;
  let context: Context;
  let reported: number;

  beforeEach(() => {
    backends = new Backends();
    model = new CurrentKernelModel(backends);
    context = new Context();
    reported = 0;
    model.changed.connect(() => {
      reported += 1;
    });
  });

  it('goes from nothing to a document without a kernel to one on the bridge', () => {
    expect(model.current).toEqual({ kind: 'none' });
    model.follow(context.followed);
    expect(model.current).toEqual({ kind: 'no-kernel', document: 'a.ipynb' });
    backends.homes.set('k1', backends.bridge);
    context.start('k1', 'bridge/python3');
    expect(model.current).toMatchObject({
      kind: 'bridge',
      kernelId: 'k1',
      clientId: 'c-k1',
      connection: 'connected'
    });
    expect(reported).toBe(2);
  });

  it('knows a kernel by its name until a list has shown it', () => {
    context.start('new', 'tpulab-jax');
    model.follow(context.followed);
    expect(model.current).toMatchObject({ kind: 'bridge', backend: backends.bridge });
    context.start('other', 'python3');
    expect(model.current).toEqual({
      kind: 'local',
      document: 'a.ipynb',
      kernelName: 'JAX (XLA) on this machine'
    });
  });

  it('does not mistake a kernel of the page’s own server for a bridge kernel', () => {
    backends.homes.set('k1', backends.jupyter);
    context.start('k1', 'python3');
    model.follow(context.followed);
    expect(model.current.kind).toBe('local');
  });

  it('checks again when the lists of the backends change', () => {
    context.start('k1', 'python3');
    model.follow(context.followed);
    expect(model.current.kind).toBe('local');
    backends.homes.set('k1', backends.bridge);
    backends.changed.emit(backends.bridge);
    expect(model.current.kind).toBe('bridge');
  });

  it('emits nothing when nothing has changed', () => {
    context.start('k1', 'tpulab-jax');
    model.follow(context.followed);
    reported = 0;
    context.statusChanged.emit(undefined);
    backends.changed.emit(backends.bridge);
    expect(reported).toBe(0);
  });

  it('releases a context that is closed or left', () => {
    context.start('k1', 'tpulab-jax');
    model.follow(context.followed);
    const second = new Context();
    second.name = 'b.ipynb';
    model.follow(second.followed);
    context.start('k2', 'tpulab-jax');
    expect(model.current).toEqual({ kind: 'no-kernel', document: 'b.ipynb' });
    second.disposed.emit();
    expect(model.current).toEqual({ kind: 'none' });
    expect(model.kernel).toBeNull();
  });
});
