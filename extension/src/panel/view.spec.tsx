// @vitest-environment jsdom
import { Signal } from '@lumino/signaling';
import type { TelemetryMessage } from '@tpulab/protocol';
import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { CurrentKernel } from '../tokens.js';
import type { StreamState } from '../events/event-stream.js';
import { KernelTelemetry } from '../events/kernel-telemetry.js';
import {
  compile,
  devices,
  hello,
  kernelState,
  machineSample,
  run,
  steps,
  T0,
  telemetry
} from '../events/samples.spec-data.js';
import { MachineTelemetry } from '../devices/machine-telemetry.js';
import { DrawLoop } from '../ui/draw-loop.js';
import type { IBridgeEvents } from '../events/tokens.js';
import type { IBackend, ICurrentKernel } from '../tokens.js';
import { ControlModel } from '../runs/model.js';
import type { PanelActions } from './actions.js';
import { ANNOUNCE_INTERVAL_MS } from './announcer.js';
import type { Remedy } from './situation.js';
import { PanelState } from './state.js';
import { PanelView } from './view.js';
// jsdom has no layout, so it has no scrolling.
Element.prototype.scrollIntoView = () => undefined;

const LIVE: StreamState = { kind: 'live', gatewayId: 'g' };

class Observer {
  observe(): void {
    // jsdom has no layout, so there is nothing to observe; the chart stays out of view.
  }
  disconnect(): void {
    // As above.
  }
}

class Surroundings {
  readonly kernel = new KernelTelemetry('k');
  readonly machine = new MachineTelemetry('bridge');
  readonly remedies: Remedy[] = [];
  readonly visited: string[] = [];
  readonly current = {
    current: { kind: 'none' } as CurrentKernel,
    kernel: null,
    changed: new Signal<object, void>({})
  };
  readonly events = {
    stream: LIVE as StreamState | null,
    streamOf: (): StreamState | null => this.events.stream,
    streamChanged: new Signal<object, string>({}),
    telemetryOf: (): KernelTelemetry => this.kernel,
    machineOf: (): MachineTelemetry => this.machine,
    machineSourceOf: () => null,
    reconnectNow: (): void => undefined
  };
  readonly state = new PanelState(
    this.current as unknown as ICurrentKernel,
    this.events as unknown as IBridgeEvents
  );
  readonly actions: PanelActions = {
    controlOf: () => null,
    storedRuns: () => null,
    preflight: () => null,
    documentOf: () => null,
    showDocument: () => undefined,
    release: () => undefined,
    removeLock: () => undefined,
    exportSteps: () => undefined
  };
  private _seq = 0;

  follow(current: CurrentKernel): void {
    this.current.current = current;
    this.current.changed.emit();
  }

  onBridge(): void {
    const backend = { id: 'bridge', state: 'ok', lastError: null } as unknown as IBackend;
    this.follow({
      kind: 'bridge',
      document: 'a.ipynb',
      kernelName: 'JAX',
      kernelId: 'k',
      clientId: 'c',
      connection: 'connected',
      status: 'idle',
      backend
    });
  }

  receive(...messages: TelemetryMessage[]): void {
    for (const message of messages) {
      this._seq += 1;
      this.kernel.applyTelemetry(telemetry('k', this._seq, message), T0);
    }
  }
}

describe('PanelView', () => {
  let scene: Surroundings;
  let host: HTMLElement;
  let root: Root;
  let loop: DrawLoop;

  const text = (): string => host.textContent;
  const sectionText = (title: string): string =>
    [...host.querySelectorAll('section')].find(({ textContent }) => textContent.startsWith(title))
      ?.textContent ?? '';
  const click = (name: RegExp | string): void => {
    const button = [...host.querySelectorAll('button')].find(({ textContent }) =>
      typeof name === 'string' ? textContent === name : name.test(textContent)
    );
    if (!button) {
      throw new Error(`No button ${String(name)} in: ${text()}`);
    }
    act(() => button.click());
  };
  const change = (what: () => void, ms = 1_000): void => {
    act(() => {
      what();
      vi.advanceTimersByTime(ms);
    });
  };

  beforeEach(() => {
    vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
    vi.stubGlobal('ResizeObserver', Observer);
    vi.stubGlobal('IntersectionObserver', Observer);
    // Without setImmediate, which React's own scheduler uses.
    vi.useFakeTimers({
      now: T0,
      toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date']
    });
    scene = new Surroundings();
    scene.state.paused = false;
    scene.machine.applySample(machineSample(1));
    host = document.body.appendChild(document.createElement('div'));
    root = createRoot(host);
    loop = new DrawLoop(window);
    act(() =>
      root.render(
        <PanelView
          state={scene.state}
          loop={loop}
          onRemedy={remedy => scene.remedies.push(remedy)}
          actions={scene.actions}
          onGoTo={({ cellId }) => (cellId === 'cell-7' ? () => scene.visited.push(cellId) : null)}
        />
      )
    );
  });

  afterEach(() => {
    act(() => root.unmount());
    host.remove();
    loop.dispose();
    scene.state.dispose();
    scene.kernel.dispose();
    scene.machine.dispose();
    // Signals clean up in the next frames; after them none of our listeners may remain.
    vi.advanceTimersByTime(100);
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it('states what to do when there is nothing to follow', () => {
    expect(text()).toContain('Open a notebook or a console');
    change(() => scene.follow({ kind: 'no-kernel', document: 'a.ipynb' }));
    expect(text()).toContain('a.ipynb has no kernel');
    click('Choose a kernel…');
    change(() => scene.follow({ kind: 'local', document: 'a.ipynb', kernelName: 'Python 3' }));
    expect(text()).toContain('The kernel “Python 3” is not on the TPULab server');
    expect(scene.remedies).toEqual(['change-kernel']);
  });

  it('treats a kernel that has not used JAX as an ordinary state and shows how to begin', () => {
    change(() => scene.onBridge());
    expect(text()).toContain('This machine has no TPU');
    expect(text()).toContain('jax.devices()');
    expect(text()).toContain('for x in tpulab.steps(data):');
    expect(text()).toContain('Nothing compiled yet');
  });

  it('shows why a request for the memory by array had no answer', async () => {
    const failed = new ControlModel(scene.kernel, () =>
      Promise.reject(new Error('The kernel did not answer within 8000 ms.'))
    );
    scene.actions.controlOf = () => failed;
    change(() => scene.onBridge());
    change(() => scene.receive(hello(), devices()));
    await act(async () => failed.request({ action: 'memory', run: null }));
    change(() => undefined);
    expect(sectionText('Devices')).toContain('The kernel did not answer within 8000 ms.');
    failed.dispose();
  });

  it('shows for a hanging loop how long it has been silent, not its remaining time', () => {
    change(() => scene.onBridge());
    change(() => scene.receive(hello(), run({ totalSteps: 150 }), steps(0, 22)));
    expect(text()).toContain('left');
    change(() => undefined, 40_000);
    expect(text()).toMatch(/no step for 4\d s/);
    expect(text()).toMatch(/train4\d s/);
    expect(text()).not.toMatch(/\d left/);
    // A declared evaluation does not count as silence.
    change(() => scene.receive(run({ totalSteps: 150, inBand: true })));
    change(() => undefined, 40_000);
    expect(text()).toContain('evaluating or saving');
    expect(text()).not.toContain('no step for');
  });

  it('advises on the recompilations of the shown run, not on the kernel’s', () => {
    const of = (id: number, runId: string, advice: string) =>
      compile(id, { run: runId, variant: 2, reason: { ...compile(0).reason, advice } });
    change(() => scene.onBridge());
    const slow = steps(0, 20);
    for (const [at, one] of slow.steps.entries())
      if (at % 4 === 0) Object.assign(one, { compileMs: 900, wallMs: 950 });
    change(() =>
      scene.receive(
        hello(),
        run(),
        slow,
        of(1, 'r1', 'Pad the last batch.'),
        of(2, 'r2', 'Make n an argument.')
      )
    );
    expect(sectionText('Where the time goes')).toContain('Pad the last batch.');
    expect(sectionText('Where the time goes')).not.toContain('Make n an argument.');
  });

  it('shows devices, steps and compilations as they arrive', () => {
    change(() => scene.onBridge());
    change(() =>
      scene.receive(hello(), devices(), run({ totalSteps: 100 }), steps(0, 20, { metrics: { loss: 0.5 } }))
    );
    expect(text()).toContain('8 XLA devices, CPU');
    expect(text()).toContain('50.0 ms/step · 20.0 steps/s');
    expect(text()).toContain('device 80%idle 10%input 4%host 6%');
    expect(text()).toContain('The device is the limit');
    expect(sectionText('running')).toMatch(/runningtrain\d+ s20 of 100 steps/);
    expect(text()).toContain('loss 0.5000');
    const image = host.querySelector('canvas[role=slider]');
    expect(image?.getAttribute('aria-label')).toBe(
      'Times of the last 20 steps: typically 50.0 ms, 0 of them compiled'
    );
  });

  it('names unknown figures and the reason, where a hook is missing', () => {
    change(() => scene.onBridge());
    const reason = 'jax 9.9 has no hook known to TPULab.';
    const capabilities = (['compilations', 'device-time'] as const).map(name => ({
      name,
      available: false,
      reason
    }));
    change(() => scene.receive(hello({ capabilities }), run(), steps(0, 20, { deviceKnown: false })));
    expect(text()).toContain(`Compilations are unknown here. ${reason}`);
    expect(text()).toContain(`Device time is unknown. ${reason} Host and idle time include it.`);
    expect(text()).not.toContain('tpulab.watch');
  });

  it('shows the progress of a run in one place only', () => {
    change(() => scene.onBridge());
    change(() => scene.receive(hello(), run({ totalSteps: 100 }), steps(0, 20)));
    expect(text().match(/20 of 100 steps/g)).toHaveLength(1);
    change(() => (scene.state.settings = { ...scene.state.settings, sections: ['steps'] }));
    expect(text().match(/20 of 100 steps/g)).toHaveLength(1);
    expect(sectionText('Where the time goes')).toContain('20 of 100 steps');
  });

  it('shows since when a metric is not finite, its previous value, and that it may be ignored', () => {
    change(() => scene.onBridge());
    const saved = { kind: 'checkpoint', inStep: true, failed: false, durationMs: 900 } as const;
    change(() =>
      scene.receive(
        hello(),
        run({ totalSteps: 100 }),
        steps(0, 20, { metrics: { loss: 0.5 } }),
        { type: 'band', time: T0, run: 'r1', step: 10, startTime: T0, ...saved },
        steps(20, 3, { nonFinite: { loss: 'NaN' } })
      )
    );
    expect(host.querySelector('[role=alert]')?.textContent).toBe(
      'loss is NaN since step 20Last finite value: 0.5000 at step 19. The last checkpoint, step 10, is from before that.Ignore'
    );
    expect(host.querySelector('.jp-TPULabProgress-mark')?.getAttribute('title')).toBe(
      'checkpoint at step 10'
    );
    click('Ignore');
    expect(host.querySelector('[role=alert]')).toBeNull();
  });

  it('requests a trace and memory by array, and shows the results', () => {
    const requested: string[] = [];
    const control = new ControlModel(scene.kernel, ({ action, value = '' }) => {
      requested.push(`${action} ${value}`.trim());
      return new Promise(() => undefined);
    });
    vi.spyOn(scene.actions, 'controlOf').mockReturnValue(control);
    change(() => scene.onBridge());
    change(() => scene.receive(hello(), devices(), run(), steps(0, 20)));
    click('More');
    click('Trace 2 s with XProf');
    expect(sectionText('Where the time goes')).toContain('Tracing…');
    const memory = [...host.querySelectorAll('details')].find(one => one.textContent.startsWith('Memory'));
    change(() => {
      if (memory) {
        memory.open = true;
      }
    });
    expect(requested).toEqual(['profile 2', 'memory']);
    const arrays = [{ bytes: 2 ** 30, count: 2, shape: [8, 4], dtype: 'float32', names: ['params'] }];
    const operations = [{ name: 'fusion.3', module: 'jit_train_step', count: 40, totalMs: 1_500 }];
    change(() =>
      scene.receive(
        { type: 'memory', time: T0, totalBytes: 2 ** 31, arrays, heldBytes: { traceback: 0, outputs: 0 } },
        {
          type: 'profile',
          time: T0,
          durationMs: 2_000,
          folder: '/tmp/p',
          devices: 8,
          busyMs: 3_000,
          operations
        }
      )
    );
    expect(memory?.textContent).toContain('Memory by array · 2.0 GiB');
    expect(memory?.textContent).toContain('float32[8,4] × 2 params1.0 GiB');
    expect(sectionText('Where the time goes')).toContain(
      '2.00 s traced on 8 devices, operations took 3.00 sfusion.3 jit_train_step40 × · 1.50 s · 50%'
    );
    control.dispose();
  });

  it('opens the chart of a metric with smoothing and wall time', () => {
    change(() => scene.onBridge());
    change(() => scene.receive(hello(), run(), steps(0, 20, { metrics: { loss: 0.5, accuracy: 0.1 } })));
    expect(host.querySelector('[role=slider][aria-label=accuracy]')).toBeNull();
    click(/^accuracy/);
    expect(host.querySelector('[role=slider][aria-label=accuracy]')).not.toBeNull();
    expect(sectionText('Metrics')).toContain('wall time');
    expect([...host.querySelectorAll('button')].find(one => one.textContent === 'wall time')?.disabled).toBe(
      false
    );
  });

  it('shows the mean step time, so that steps times the mean is the elapsed time', () => {
    change(() => scene.onBridge());
    change(() => scene.receive(hello(), run(), steps(0, 20)));
    // Runs ahead: every fourth step only queues its work, the others wait.
    change(() =>
      scene.receive(
        ...[20, 24, 28, 32, 36].flatMap(from => [
          steps(from, 1, { wallMs: 2, deviceMs: 0, inputMs: 1, hostMs: 1, gapMs: 0 }),
          steps(from + 1, 3)
        ])
      )
    );
    expect(text()).toContain('44.0 ms/step · 22.7 steps/s');
  });

  it('explains a recompilation and goes to its line', () => {
    change(() => scene.onBridge());
    const reason = {
      verdict: 'shape',
      argument: 'x',
      before: 'f32[16,512]',
      after: 'f32[11,512]',
      advice: 'Pad the last batch to 16.'
    } as const;
    change(() => scene.receive(hello(), compile(1), compile(2, { variant: 2, reason })));
    expect(host.querySelector('.jp-TPULabFunction-line')?.textContent).toBe(
      'train_step ×2 recompiled argument x was f32[16,512], now f32[11,512] 2.00 s'
    );
    click(/^train_step ×2/);
    const cards = [...host.querySelectorAll('.jp-TPULabCard')].map(card => card.textContent);
    expect(cards[0]).toBe(
      'train_step recompiled1.00 scell [7] line 12: argument x was f32[16,512], now f32[11,512]Pad the last batch to 16.'
    );
    expect(cards[1]).toBe('train_step compiled1.00 scell [7] line 12');
    expect(text()).toContain('2 in 2.00 s');
    click('cell [7] line 12');
    expect(scene.visited).toEqual(['cell-7']);
  });

  it("shows the persistent cache's result for a compilation, and the reason, once for cards with the same reason", () => {
    change(() => scene.onBridge());
    const off = { result: 'off', reason: 'No folder is set.' } as const;
    const quick = { result: 'miss', reason: 'It took 0.2 s: programs below 1 s are not kept.' } as const;
    const hit = { result: 'hit', reason: null } as const;
    change(() =>
      scene.receive(
        hello(),
        compile(1, { cache: off }),
        compile(2, { cache: off }),
        compile(3, { phase: 'started' }),
        compile(3, { cache: quick }),
        compile(4, { cache: hit, cacheHit: true })
      )
    );
    click(/^train_step ×4/);
    const cards = [...host.querySelectorAll('.jp-TPULabCard')];
    expect(cards.map(card => card.querySelector('.jp-TPULabCard-cache')?.textContent)).toEqual([
      undefined,
      'Cache: miss. It took 0.2 s: programs below 1 s are not kept.',
      'Cache: off. No folder is set.',
      'Cache: off.'
    ]);
    expect(cards[0]?.textContent).toContain('train_step from cache');
  });

  it('offers no link to a cell that is not open', () => {
    change(() => scene.onBridge());
    const location = { cellId: 'gone', executionCount: 3, line: 1, file: null, function: null };
    change(() => scene.receive(hello(), compile(1, { location })));
    click(/^train_step/);
    expect(host.querySelector('.jp-TPULabCard button')).toBeNull();
    expect(host.querySelector('.jp-TPULabCard')?.textContent).toContain('cell [3] line 1');
  });

  it('counts the seconds of a compilation under way', () => {
    change(() => scene.onBridge());
    change(() => scene.receive(hello(), compile(1, { phase: 'started', time: T0 })), 300);
    expect(host.querySelector('.jp-TPULabFunction-line')?.textContent).toMatch(
      /^train_step {2}compiling… {2}[01] s/
    );
    change(() => undefined, 12_000);
    expect(host.querySelector('.jp-TPULabFunction-line')?.textContent).toMatch(
      /^train_step {2}compiling… {2}1[23] s/
    );
    change(() => scene.receive(compile(1)));
    expect(host.querySelector('.jp-TPULabFunction-line')?.textContent).toBe('train_step  compiled  1.00 s');
  });

  it('keeps small programs outside jit in one line until expanded', () => {
    change(() => scene.onBridge());
    const eager = { eager: true, function: 'broadcast_in_dim', traceMs: 0, lowerMs: 0, compileMs: 10 };
    change(() => scene.receive(hello(), compile(1, eager), compile(2, eager)));
    expect(text()).toContain('2 small programs outside jit20.0 ms');
    expect(text()).not.toContain('broadcast_in_dim');
    click(/small programs/);
    expect(text()).toContain('broadcast_in_dim2 × · 20.0 ms');
  });

  it('folds a section and reports it to assistive technology', () => {
    change(() => scene.onBridge());
    change(() => scene.receive(hello(), devices()));
    const button = [...host.querySelectorAll<HTMLButtonElement>('.jp-TPULabSection-button')].find(one =>
      one.textContent.startsWith('Devices')
    );
    const body = host.querySelector(`[id="${button?.getAttribute('aria-controls') ?? ''}"]`);
    expect(button?.getAttribute('aria-expanded')).toBe('true');
    click(/^Devices/);
    expect(button?.getAttribute('aria-expanded')).toBe('false');
    expect(body?.hasAttribute('hidden')).toBe(true);
    expect(button?.textContent).toBe('Devices 8 XLA devices, CPU');
  });

  it('gives the same figures as a table', () => {
    change(() => scene.onBridge());
    change(() => scene.receive(hello(), run(), steps(0, 20)));
    click('More');
    click('Show as a table');
    const rows = [...host.querySelectorAll('tbody tr')].map(row =>
      [...row.children].map(cell => cell.textContent)
    );
    expect(rows).toHaveLength(12);
    expect(rows[0]).toEqual(['19', '50.0', '2.00', '3.00', '0.00', '40.0', '5.00']);
  });

  it('marks in the table and beside the chart which steps were not watched', () => {
    change(() => scene.onBridge());
    const unwatched = { inputMs: 2, hostMs: 48, deviceMs: 0, gapMs: 0, deviceKnown: false };
    const compiled = { ...unwatched, compileMs: 950 };
    change(() => scene.receive(hello(), run(), steps(0, 1, compiled), steps(1, 3), steps(4, 2, unwatched)));
    expect(text()).toContain(' not watched▲ compiled');
    expect(host.querySelector('canvas[role=slider]')?.getAttribute('aria-label')).toBe(
      'Times of the last 6 steps: typically 50.0 ms, 2 of them not watched and estimated, 1 of them compiled'
    );
    click('More');
    click('Show as a table');
    const rows = [...host.querySelectorAll('tbody tr')].map(row =>
      [...row.children].map(cell => cell.textContent)
    );
    expect(host.querySelector('thead th:nth-child(2)')?.textContent).toBe('watched');
    expect(host.querySelector('caption')?.textContent).toContain('≈');
    expect(rows[0]).toEqual(['5', 'no', '50.0', '≈2.00', '≈3.00', '≈0.00', '≈40.0', '≈5.00']);
    expect(rows[2]).toEqual(['3', 'yes', '50.0', '2.00', '3.00', '0.00', '40.0', '5.00']);
    expect(rows[5]).toEqual(['0', 'no', '1000', '2.00', '48.0', '950', '–', '0.00']);
  });

  it('shows code in advice as code, on the card and in the sentence', () => {
    change(() => scene.onBridge());
    const advice = 'Give `images` one shape.';
    const reason = { verdict: 'shape', argument: null, before: null, after: null, advice } as const;
    const again = { compileMs: 950, hostMs: 48, deviceMs: 0, gapMs: 0, deviceKnown: false };
    change(() =>
      scene.receive(
        hello(),
        run(),
        compile(1, { variant: 2, run: 'r1', reason }),
        steps(0, 5),
        steps(5, 2, again)
      )
    );
    click(/^train_step/);
    for (const where of ['.jp-TPULabCard', '.jp-TPULabSteps .jp-TPULabSay']) {
      const shown = host.querySelector(where);
      expect(shown?.textContent).toContain('Give images one shape.');
      expect([...(shown?.querySelectorAll('code') ?? [])].map(code => code.textContent)).toEqual(['images']);
    }
  });

  it('keeps the advice about a run with that run', () => {
    change(() => scene.onBridge());
    const entry = {
      type: 'advice',
      time: T0,
      kind: 'ragged-batch',
      remedy: 'Pad it.',
      location: null
    } as const;
    change(() =>
      scene.receive(
        hello(),
        run(),
        steps(0, 5),
        { ...entry, id: '1', message: 'A batch of 29 came.', run: 'r1' },
        { ...entry, id: '2', message: 'A batch of 31 came.', run: 'another' },
        { ...entry, id: '3', message: 'Only the CPU is used.', run: null }
      )
    );
    const notes = host.querySelector('[aria-label="Notes and advice"]')?.textContent;
    expect(notes).toContain('A batch of 29 came.');
    expect(notes).toContain('Only the CPU is used.');
    expect(notes).not.toContain('A batch of 31');
  });

  it('shows the time until the next attempt, retains the last data, and can retry now', () => {
    change(() => scene.onBridge());
    change(() => scene.receive(hello(), devices()));
    change(() => {
      const failure = { code: 'cut', detail: '' } as const;
      scene.events.stream = { kind: 'waiting', attempt: 3, retryAt: Date.now() + 8_000, failure };
      scene.events.streamChanged.emit('bridge');
    });
    expect(text()).toContain('Disconnected from the TPULab server. Next try in 7 s.');
    expect(text()).toContain('8 XLA devices, CPU');
    click('Reconnect now');
    expect(scene.remedies).toEqual(['reconnect']);
  });

  it('shows why a kernel has ended', () => {
    change(() => scene.onBridge());
    change(() => scene.kernel.applyState(kernelState('k', 'dead', { reason: 'killed by SIGKILL' })));
    expect(text()).toContain('The kernel has ended: killed by SIGKILL');
    change(() => scene.receive(hello(), run(), steps(0, 5)));
    expect(text()).toContain('The kernel has ended: killed by SIGKILL');
    expect(text()).toContain('kernel endedtrain');
  });

  it('draws nothing while it is paused, and everything once it is visible again', () => {
    change(() => scene.onBridge());
    change(() => (scene.state.paused = true));
    const before = host.innerHTML;
    change(() => scene.receive(hello(), devices(), run(), steps(0, 20)));
    expect(host.innerHTML).toBe(before);
    change(() => (scene.state.paused = false));
    expect(text()).toContain('50.0 ms/step');
  });

  it('announces changes politely and not too often', () => {
    const entry = (): string => host.querySelector('[role=status]')?.textContent ?? '';
    change(() => scene.onBridge());
    change(() => scene.receive(hello(), run(), steps(0, 20)));
    change(() => undefined);
    expect(entry()).toBe('train · running: 50.0 ms per step.');
    change(() => scene.receive(steps(20, 40, { deviceMs: 90 })));
    change(() => undefined);
    expect(entry()).toBe('train · running: 50.0 ms per step.');
    change(() => undefined, ANNOUNCE_INTERVAL_MS);
    expect(entry()).toBe('train · running: 91.7 ms per step.');
  });
});
