import type { AdviceMessage, TelemetryMessage } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { KernelTelemetry } from '../events/kernel-telemetry.js';
import { hello, run, steps, T0, telemetry } from '../events/samples.spec-data.js';
import { RunNotices } from './notices.js';

const MINUTE = 60_000;

class Scene {
  readonly kernel = new KernelTelemetry('k');
  isWatched = false;
  readonly notices = new RunNotices({
    since: T0 + MINUTE,
    isWatched: () => this.isWatched
  });

  constructor() {
    this.receive(hello(), run({ state: 'running' }));
  }

  receive(...messages: TelemetryMessage[]): string[] {
    for (const data of messages) {
      this._seq += 1;
      this.kernel.applyTelemetry(telemetry('k', this._seq, data), T0 + 10 * MINUTE);
    }
    return this.notices.check(this.kernel).map(({ kind, text }) => `${kind}: ${text}`);
  }

  private _seq = 0;
}

function nan(time: number, id = 'non-finite-metric r1 loss'): AdviceMessage {
  return {
    ...{ type: 'advice', time, id, kind: 'non-finite-metric', remedy: 'Check the data.', location: null },
    message: 'At step 12, `loss` became NaN.',
    run: 'r1'
  };
}

describe('notices about runs', () => {
  it('reports once that a metric became NaN, also of a run in view', () => {
    const scene = new Scene();
    scene.isWatched = true;
    expect(scene.receive(nan(T0 + 2 * MINUTE))).toEqual(['warning: train: At step 12, loss became NaN.']);
    expect(scene.receive(nan(T0 + 3 * MINUTE))).toEqual([]);
    expect(scene.receive(nan(T0 + 3 * MINUTE, 'non-finite-metric r2 loss'))).toHaveLength(1);
  });

  it('reports a rule that was broken and a run that slowed down, and no other advice', () => {
    const scene = new Scene();
    scene.isWatched = true;
    const advice = (kind: AdviceMessage['kind']) => ({ ...nan(T0 + 2 * MINUTE, `${kind} r1`), kind });
    expect(scene.receive(advice('alert'), advice('slower'), advice('ragged-batch'))).toHaveLength(2);
  });

  it('is silent about events before the page was opened', () => {
    const scene = new Scene();
    expect(scene.receive(nan(T0), run({ state: 'failed', time: T0 + 1 }))).toEqual([]);
  });

  it.each([
    ['failed', 'error: train failed after 4 steps.'],
    ['finished', 'success: train finished after 4 steps.']
  ] as const)('reports that a run %s while the page was hidden', (state, text) => {
    const scene = new Scene();
    const end = run({ state, time: T0 + 2 * MINUTE });
    expect(scene.receive(steps(0, 4), end)).toEqual([text]);
    expect(scene.receive(end)).toEqual([]);
    const watched = new Scene();
    watched.isWatched = true;
    expect(watched.receive(steps(0, 4), end)).toEqual([]);
    // Not reported later either: the user has seen it.
    watched.isWatched = false;
    expect(watched.receive()).toEqual([]);
  });

  it('reports a run whose kernel ended, and no short loop that finished', () => {
    const scene = new Scene();
    const at = T0 + 2 * MINUTE;
    expect(
      scene.receive(
        run({ run: 'r2', name: 'epoch', time: at }),
        run({ run: 'r2', name: 'epoch', time: at + 5_000, state: 'finished' })
      )
    ).toEqual([]);
    scene.receive({ ...steps(0, 2), time: at });
    expect(scene.receive(hello({ pid: 2, time: at + 1 }))).toEqual([
      'error: train was cut off after 2 steps: its kernel ended.'
    ]);
  });
});
