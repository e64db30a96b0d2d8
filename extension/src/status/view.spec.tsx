// @vitest-environment jsdom
import { Signal } from '@lumino/signaling';
import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { CurrentKernel } from '../tokens.js';
import type { StreamState } from '../events/event-stream.js';
import { KernelTelemetry } from '../events/kernel-telemetry.js';
import { MachineTelemetry } from '../devices/machine-telemetry.js';
import { deviceFigures, devices, hello, machineSample, T0, telemetry } from '../events/samples.spec-data.js';
import type { IBridgeEvents } from '../events/tokens.js';
import type { IBackend, ICurrentKernel } from '../tokens.js';
import { StatusModel } from './model.js';
import { ConnectionItem, DevicesItem } from './view.js';

const backendChanged = new Signal<object, void>({});

function bridged(
  connection: 'connected' | 'connecting',
  lastError: () => IBackend['lastError'] = () => null
): CurrentKernel {
  const backend = {
    id: 'bridge',
    state: 'ok',
    get lastError() {
      return lastError();
    },
    nextRetryAt: null,
    changed: backendChanged
  } as unknown as IBackend;
  const names = { document: 'a.ipynb', kernelName: 'JAX', kernelId: 'k', clientId: 'c' };
  return { kind: 'bridge', ...names, connection, status: 'idle', backend };
}

describe('the status bar', () => {
  let host: HTMLElement;
  let root: Root;
  let model: StatusModel;
  let kernel: KernelTelemetry;
  let machine: MachineTelemetry;
  let stream: StreamState;
  let reconnects: number;
  const streamChanged = new Signal<object, string>({});
  const current = {
    current: { kind: 'none' } as CurrentKernel,
    kernel: null,
    changed: new Signal<object, void>({})
  };

  const become = (next: CurrentKernel, state: StreamState = { kind: 'live', gatewayId: 'g' }): void => {
    act(() => {
      stream = state;
      current.current = next;
      current.changed.emit();
      vi.advanceTimersByTime(1_000);
    });
  };

  beforeEach(() => {
    vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
    vi.useFakeTimers({
      now: T0,
      toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date']
    });
    kernel = new KernelTelemetry('k');
    machine = new MachineTelemetry('bridge');
    stream = { kind: 'live', gatewayId: 'g' };
    reconnects = 0;
    current.current = { kind: 'none' };
    const events = {
      streamOf: () => stream,
      streamChanged,
      telemetryOf: () => kernel,
      machineOf: () => machine
    };
    model = new StatusModel(current as unknown as ICurrentKernel, events as unknown as IBridgeEvents);
    host = document.body.appendChild(document.createElement('div'));
    root = createRoot(host);
    act(() =>
      root.render(
        <>
          <ConnectionItem model={model} onReconnect={() => (reconnects += 1)} />
          <DevicesItem model={model} onShow={() => undefined} />
        </>
      )
    );
  });

  afterEach(() => {
    act(() => root.unmount());
    host.remove();
    model.dispose();
    kernel.dispose();
    machine.dispose();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it('is empty without a kernel', () => {
    expect(host.textContent).toBe('');
  });

  it('does not continue to wait for a machine that was preempted', () => {
    let lastError: IBackend['lastError'] = null;
    become(
      bridged('connecting', () => lastError),
      { kind: 'connecting', attempt: 1 }
    );
    expect(host.textContent).toContain('reconnecting');
    act(() => {
      lastError = { code: 'remote.preempted', message: 'my-tpu was preempted.' };
      backendChanged.emit();
      vi.advanceTimersByTime(1_000);
    });
    expect(host.textContent).toContain('lost');
  });

  it('shows live and names the devices once they are known', () => {
    become(bridged('connected'));
    expect(host.textContent).toBe('live');
    act(() => {
      kernel.applyTelemetry(telemetry('k', 1, hello()), T0);
      kernel.applyTelemetry(telemetry('k', 2, devices()), T0);
      vi.advanceTimersByTime(1_000);
    });
    expect(host.textContent).toBe('live8 XLA devices, CPU');
  });

  it('shows how busy the chips of the machine are, with or without a runtime that knows them', () => {
    become(bridged('connected'));
    act(() => {
      machine.applySample(machineSample(1, { devices: [deviceFigures(0), deviceFigures(1)] }));
      vi.advanceTimersByTime(2_000);
    });
    expect(host.textContent).toContain('2 devices 87% · HBM 22.0 / 32.0 GiB');
  });

  it('counts down second by second, and a click does not wait', () => {
    const failure = { code: 'cut', detail: '' } as const;
    become(bridged('connecting'), { kind: 'waiting', attempt: 3, retryAt: T0 + 8_000, failure });
    expect(host.textContent).toBe('reconnecting in 7 s');
    act(() => void vi.advanceTimersByTime(3_000));
    expect(host.textContent).toBe('reconnecting in 4 s');
    act(() => host.querySelector('button')?.click());
    expect(reconnects).toBe(1);
  });

  it('counts messages still to be replayed', () => {
    become(bridged('connected'));
    act(() => {
      kernel.applyClient({
        topic: 'clients',
        kernelId: 'k',
        sessionId: 'c',
        state: 'replaying',
        pending: 1_200
      });
      vi.advanceTimersByTime(1_000);
    });
    expect(host.textContent).toBe('replaying (1,200 to go)');
    act(() => {
      kernel.applyClient({ topic: 'clients', kernelId: 'k', sessionId: 'c', state: 'live', pending: 0 });
      vi.advanceTimersByTime(1_000);
    });
    expect(host.textContent).toBe('live');
  });

  it('calls a stock kernel local', () => {
    become({ kind: 'local', document: 'a.ipynb', kernelName: 'Python 3' });
    expect(host.textContent).toBe('local');
    expect(host.querySelector('button')).toBeNull();
  });

  it('has a mark with a different shape for each state', () => {
    const shapes = new Set<string>();
    const failure = { code: 'cut', detail: '' } as const;
    for (const [next, state] of [
      [bridged('connected'), { kind: 'live', gatewayId: 'g' }],
      [bridged('connecting'), { kind: 'waiting', attempt: 1, retryAt: T0 + 60_000, failure }],
      [
        { ...bridged('connected'), status: 'dead' },
        { kind: 'live', gatewayId: 'g' }
      ],
      [
        { kind: 'local', document: 'a', kernelName: 'P' },
        { kind: 'live', gatewayId: 'g' }
      ]
    ] as [CurrentKernel, StreamState][]) {
      become(next, state);
      shapes.add(host.querySelector('svg')?.innerHTML ?? '');
    }
    expect(shapes.size).toBe(4);
  });
});
