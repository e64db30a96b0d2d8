// @vitest-environment jsdom
import { nullTranslator } from '@jupyterlab/translation';
import type { ControlMessage, StoredRun as KeptRunBody } from '@tpulab/protocol';
import { act } from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { reactPlace } from '../testing/react-place.js';
import { KernelTelemetry } from '../events/kernel-telemetry.js';
import { T0 } from '../events/samples.spec-data.js';
import { DrawLoop } from '../ui/draw-loop.js';
import type { StoredRun } from './stored-runs.js';
import { StoredRunsView } from './stored-runs-view.js';

const trans = nullTranslator.load('jupyterlab_tpulab');

class Observer {
  observe(): void {
    // jsdom has no layout, so there is nothing to observe; the charts stay out of view.
  }
  disconnect(): void {
    // As above.
  }
}

function command(id: string, fields: Partial<ControlMessage>): ControlMessage {
  const none = { name: null, value: null, before: null, reason: null, durationMs: null };
  return {
    ...{ type: 'control', time: T0, run: 'r', id, action: 'stop', phase: 'applied', step: 10 },
    ...none,
    ...fields
  } as ControlMessage;
}

function stored(commands: ControlMessage[], state: KeptRunBody['state']): StoredRun {
  const body: KeptRunBody = {
    ...{ v: 1, key: 'k-r', kernelId: 'gone', run: 'r', name: 'first', state, startedAt: T0, lastAt: T0 },
    ...{ steps: 40, totalSteps: 100, config: {}, metrics: {}, hyperparameters: [], series: {}, commands },
    totals: { wallMs: 400, inputMs: 0, hostMs: 0, compileMs: 0, deviceMs: 400, gapMs: 0 },
    bands: [
      {
        type: 'band',
        time: T0,
        run: 'r',
        kind: 'evaluate',
        step: 30,
        startTime: T0 + 30,
        inStep: true,
        durationMs: 12,
        failed: false
      }
    ]
  };
  return { key: body.key, summary: body, body };
}

describe('a stored run', () => {
  const place = reactPlace();
  let loop: DrawLoop;
  let kernel: KernelTelemetry;

  const opened = (one: StoredRun): string[] => {
    place.show(
      <StoredRunsView
        kernel={kernel}
        run={null}
        stored={[one]}
        onOpenStored={() => undefined}
        compared={[]}
        onCompare={() => undefined}
        loop={loop}
        trans={trans}
      />
    );
    act(() => place.host.querySelector<HTMLButtonElement>('button[title="Open this run"]')?.click());
    return [...place.host.querySelectorAll('.jp-TPULabLog-lines li')].map(({ textContent }) => textContent);
  };

  beforeEach(() => {
    vi.stubGlobal('ResizeObserver', Observer);
    vi.stubGlobal('IntersectionObserver', Observer);
    loop = new DrawLoop(window);
    kernel = new KernelTelemetry('k');
  });

  afterEach(() => {
    loop.dispose();
    kernel.dispose();
  });

  it('opens with its log: the requests and their results, newest first, and its other work', () => {
    const set = { action: 'set', name: 'learning_rate', value: 0.02, before: 0.001 } as const;
    expect(
      opened(
        stored(
          [
            command('a', { ...set, time: T0 + 10, step: 10 }),
            command('b', {
              action: 'pause',
              phase: 'refused',
              reason: 'it has ended',
              time: T0 + 50,
              step: null
            })
          ],
          'finished'
        )
      )
    ).toEqual([
      '– pause · refused: it has ended',
      '30 evaluation · 12.0 ms',
      '10 learning_rate 0.001000 → 0.02000 · applied'
    ]);
  });

  it('describes commands that waited for a step after the last one, unless the run continues', () => {
    const waiting = [command('a', { phase: 'accepted', step: null, time: T0 + 90 })];
    expect(opened(stored(waiting, 'interrupted'))[0]).toContain('not applied: no further step');
    place.show(null);
    expect(opened(stored(waiting, 'running'))[0]).toContain('waiting for the next step');
  });
});
