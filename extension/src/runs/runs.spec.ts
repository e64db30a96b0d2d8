import type {
  BandMessage,
  ControlCommand,
  ControlMessage,
  Hyperparameter,
  StoredRun,
  RunControl
} from '@tpulab/protocol';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { KernelTelemetry } from '../events/kernel-telemetry.js';
import { MetricSeries } from '../events/metric-series.js';
import { hello, kernelState, run, steps, T0, telemetry } from '../events/samples.spec-data.js';
import { metricText } from '../text/value.js';
import { parseNumber, PLACES, placeOf, sliderBounds, valueAt } from './hyper-scale.js';
import { metricColumns, metricNames } from './metric-data.js';
import { addPast, lacksHistory } from './past.js';
import { RETRY_MS, ControlModel } from './model.js';
import { buttonsOf, stateText } from '../events/run-state.js';
import { saveCheckpoints } from './save-checkpoints.js';

const CONTROL: RunControl = {
  state: 'running',
  actions: ['pause', 'resume', 'stop', 'set', 'checkpoint'],
  hyperparameters: [],
  config: {},
  log: null
};
const RATE: Hyperparameter = {
  name: 'rate',
  value: 1e-3,
  initial: 1e-3,
  kind: 'number',
  min: 1e-6,
  max: 1e-1,
  scale: 'log',
  choices: null,
  description: null,
  recompiles: false
};

function message(
  id: string,
  phase: ControlMessage['phase'],
  fields: Partial<ControlMessage> = {}
): ControlMessage {
  return {
    type: 'control',
    time: T0,
    id,
    run: 'r1',
    action: 'pause',
    name: null,
    value: null,
    before: null,
    origin: 'page',
    phase,
    step: phase === 'applied' ? 7 : null,
    durationMs: null,
    reason: null,
    ...fields
  };
}

class Scene {
  readonly kernel = new KernelTelemetry('k');
  readonly sent: ControlCommand[] = [];
  answer: (command: ControlCommand) => Promise<ControlMessage> = async ({ id }) => message(id, 'accepted');
  readonly control = new ControlModel(
    this.kernel,
    command => {
      this.sent.push(command);
      return this.answer(command);
    },
    () => `c${this.sent.length}`
  );
  private _seq = 0;

  constructor(control: RunControl = CONTROL) {
    this.receive(hello(), run({ control }), steps(0, 5));
  }

  receive(...messages: Parameters<typeof telemetry>[2][]): void {
    for (const data of messages) {
      this._seq += 1;
      this.kernel.applyTelemetry(telemetry('k', this._seq, data), T0);
    }
  }

  get run() {
    const { current } = this.kernel.runs;
    if (!current) {
      throw new Error('no run');
    }
    return current;
  }
}

describe('a metric that is NaN or infinite', () => {
  it('is recognised with its first step, and is a gap in the chart', () => {
    const { kernel } = new Scene();
    const reported = [
      { metrics: { loss: 2 } },
      { nonFinite: { loss: 'NaN' } },
      { metrics: { loss: 1 } },
      { nonFinite: { loss: 'Infinity' } },
      { nonFinite: { loss: 'NaN' } }
    ] as const;
    reported.forEach((fields, at) =>
      kernel.applyTelemetry(telemetry('k', 100 + at, steps(at, 1, fields)), T0)
    );
    const series = kernel.runs.current?.series.get('loss');
    expect(series?.nonFiniteSince).toBe(3);
    expect(kernel.runs.current?.metrics).toEqual({ loss: Number.NaN });
    const source = { key: 'r', label: run().name, series: () => series ?? null };
    expect(metricColumns([source], 'loss')).toEqual([
      [0, 1, 2, 3, 4],
      [2, null, 1, null, null]
    ]);
    expect(metricColumns([source, source], 'loss')[2]).toEqual([2, null, 1, null, null]);
    expect([Number.NaN, Infinity, -Infinity].map(metricText)).toEqual(['NaN', '∞', '-∞']);
  });
});

describe('a request to a run', () => {
  it('is under way until the agent has applied it', async () => {
    const scene = new Scene();
    const requested = scene.control.request({ action: 'pause', run: 'r1' });
    expect(scene.control.pendingOf('pause')?.phase).toBe('sent');
    await requested;
    expect(scene.control.pendingOf('pause')?.phase).toBe('accepted');
    scene.receive(message('c0', 'applied'));
    await new Promise(resolve => setTimeout(resolve, 150));
    expect(scene.control.pendingOf('pause')).toBeNull();
    expect(scene.control.failed).toEqual([]);
    expect(scene.run.commands).toMatchObject([{ id: 'c0', phase: 'applied', step: 7 }]);
    scene.control.dispose();
  });

  it.each(['refused', 'expired', 'failed'] as const)('that is %s gives the reason', async phase => {
    const scene = new Scene();
    scene.answer = async ({ id }) => message(id, phase, { reason: 'the run is over' });
    await scene.control.request({ action: 'checkpoint', run: 'r1' });
    expect(scene.control.pending).toEqual([]);
    expect(scene.control.failed).toMatchObject([{ action: 'checkpoint', text: 'the run is over' }]);
    scene.answer = async ({ id }) => message(id, 'accepted');
    await scene.control.request({ action: 'checkpoint', run: 'r1' });
    expect(scene.control.failed).toEqual([]);
    scene.control.dispose();
  });

  it('that does not arrive is reported, and nothing stays pending', async () => {
    const scene = new Scene();
    scene.answer = () => Promise.reject(new Error('The kernel did not answer.'));
    await scene.control.request({ action: 'set', run: 'r1', name: 'rate', value: 0.1 });
    expect(scene.sent).toEqual([{ id: 'c0', action: 'set', run: 'r1', name: 'rate', value: 0.1 }]);
    expect(scene.control.failed).toMatchObject([{ name: 'rate', text: 'The kernel did not answer.' }]);
    expect(scene.control.pending).toEqual([]);
    scene.control.dispose();
  });
});

describe('an accepted request whose final answer was lost', () => {
  afterEach(() => void vi.useRealTimers());

  it('is repeated with its id until the agent reports its result', async () => {
    vi.useFakeTimers();
    const scene = new Scene();
    await scene.control.request({ action: 'set', run: 'r1', name: 'rate', value: 0.1 });
    await vi.advanceTimersByTimeAsync(RETRY_MS);
    expect(scene.sent).toHaveLength(2);
    expect(scene.sent[1]).toEqual(scene.sent[0]);
    expect(scene.control.pendingOf('set', 'rate')?.phase).toBe('accepted');
    scene.answer = () => Promise.reject(new Error('The kernel did not answer.'));
    await vi.advanceTimersByTimeAsync(RETRY_MS);
    expect(scene.control.pendingOf('set', 'rate')?.phase).toBe('accepted');
    scene.answer = async ({ id }) => message(id, 'applied', { action: 'set', name: 'rate' });
    await vi.advanceTimersByTimeAsync(RETRY_MS);
    expect(scene.control.pending).toEqual([]);
    expect(scene.control.failed).toEqual([]);
    await vi.advanceTimersByTimeAsync(3 * RETRY_MS);
    expect(scene.sent).toHaveLength(4);
    scene.control.dispose();
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a checkpoint of all trainings', () => {
  const { signal } = new AbortController();
  const target = ({ kernel, sent, answer }: Scene) => ({
    kernel,
    send: (command: ControlCommand) => {
      sent.push(command);
      return answer(command);
    }
  });

  it('is taken when each run has applied it', async () => {
    const [one, other] = [new Scene(), new Scene()];
    const taking = saveCheckpoints([target(one), target(other)], signal);
    for (const scene of [one, other]) {
      expect(scene.sent).toMatchObject([{ action: 'checkpoint', run: 'r1' }]);
      scene.receive(message(scene.sent[0]!.id, 'applied', { action: 'checkpoint' }));
    }
    expect(await taking).toEqual({ saved: [one.run.name, other.run.name], failed: [] });
  });

  it('reports why a run has taken none, and sends no request to one without support', async () => {
    const [unwilling, unable] = [new Scene(), new Scene({ ...CONTROL, actions: ['pause'] })];
    unwilling.answer = async ({ id }) => message(id, 'failed', { reason: 'the disk is full' });
    expect(await saveCheckpoints([target(unwilling), target(unable)], signal)).toEqual({
      saved: [],
      failed: [{ run: unwilling.run.name, text: 'the disk is full' }]
    });
    expect(unable.sent).toEqual([]);
  });

  it('is no longer awaited when the kernel ends', async () => {
    const scene = new Scene();
    const taking = saveCheckpoints([target(scene)], signal);
    scene.kernel.applyState(kernelState('k', 'dead'));
    expect(await taking).toMatchObject({ saved: [], failed: [{ text: 'The kernel has ended.' }] });
  });

  it('is awaited no longer than the given limit', async () => {
    const scene = new Scene();
    const enough = new AbortController();
    const taking = saveCheckpoints([target(scene)], enough.signal);
    enough.abort();
    expect(await taking).toMatchObject({ saved: [], failed: [{ text: 'It has not been heard of.' }] });
  });
});

describe('the buttons of a run', () => {
  it('are those that it supports, and pause or resume by its state', () => {
    const names = (control: RunControl) => buttonsOf(new Scene(control).run).map(({ action }) => action);
    expect(names(CONTROL)).toEqual(['pause', 'stop', 'checkpoint']);
    expect(names({ ...CONTROL, state: 'paused' })).toEqual(['resume', 'stop', 'checkpoint']);
    expect(names({ ...CONTROL, actions: ['stop'] })).toEqual(['stop']);
  });

  it('do nothing for a run that has ended or is stopping', () => {
    const scene = new Scene({ ...CONTROL, state: 'stopping' });
    expect(buttonsOf(scene.run).every(({ enabled }) => !enabled)).toBe(true);
    expect(stateText(scene.run)).toBe('stopping…');
    scene.receive(run({ state: 'finished', control: { ...CONTROL, state: 'stopped' } }));
    expect(buttonsOf(scene.run).every(({ enabled }) => !enabled)).toBe(true);
    expect(stateText(scene.run)).toBe('stopped');
  });

  it('do nothing for a run that ended without a stop request, which is called finished and not stopped', () => {
    const scene = new Scene(CONTROL);
    // The state of the controller is reported a moment before the run's state.
    scene.receive(run({ state: 'running', control: { ...CONTROL, state: 'finished' } }));
    expect(stateText(scene.run)).toBe('finished');
    expect(buttonsOf(scene.run).every(({ enabled }) => !enabled)).toBe(true);
    scene.receive(run({ state: 'finished', control: { ...CONTROL, state: 'finished' } }));
    expect(stateText(scene.run)).toBe('finished');
    scene.receive(run({ state: 'failed', control: { ...CONTROL, state: 'failed' } }));
    expect(stateText(scene.run)).toBe('failed');
  });

  it('include its own actions, each with its name', async () => {
    const scene = new Scene({
      ...CONTROL,
      actions: [...CONTROL.actions, 'call'],
      own: ['full evaluation', 'export']
    });
    const own = buttonsOf(scene.run).filter(({ action }) => action === 'call');
    expect(own.map(({ name, enabled }) => [name, enabled])).toEqual([
      ['full evaluation', true],
      ['export', true]
    ]);
    await scene.control.request({ action: 'call', run: 'r1', name: 'full evaluation' });
    expect(scene.sent).toMatchObject([{ action: 'call', name: 'full evaluation' }]);
    expect(scene.control.pendingOf('call', 'full evaluation')).not.toBeNull();
    expect(scene.control.pendingOf('call', 'export')).toBeNull();
  });

  it('are none for a loop that cannot be steered', () => {
    const kernel = new KernelTelemetry('k');
    kernel.applyTelemetry(telemetry('k', 1, run()), T0);
    expect(kernel.runs.current && buttonsOf(kernel.runs.current)).toEqual([]);
    kernel.dispose();
  });
});

describe('the slider of a hyperparameter', () => {
  const bounds = { min: 1e-6, max: 1e-1 };

  it('covers the decades evenly, and its ends are exact', () => {
    expect(placeOf(1e-6, bounds, 'log')).toBe(0);
    expect(placeOf(1e-1, bounds, 'log')).toBe(PLACES);
    expect(placeOf(1e-3, bounds, 'log')).toBe(600);
    expect(valueAt(0, bounds, RATE)).toBe(1e-6);
    expect(valueAt(PLACES, bounds, RATE)).toBe(1e-1);
    expect(valueAt(600, bounds, RATE)).toBeCloseTo(1e-3);
  });

  it.each([0, 1, 17, 500, 999, 1_000])('returns to position %d for the value of that position', place => {
    expect(Math.abs(placeOf(valueAt(place, bounds, RATE), bounds, 'log') - place)).toBeLessThanOrEqual(1);
  });

  it('gives whole numbers for an integer', () => {
    const layers: Hyperparameter = { ...RATE, kind: 'integer', min: 1, max: 12, scale: 'linear' };
    expect(valueAt(500, { min: 1, max: 12 }, layers) % 1).toBe(0);
  });

  it.each([[{ min: null }], [{ min: 0 }], [{ min: 2, max: 1 }], [{ kind: 'text' as const }]])(
    'does not exist for %j',
    fields => {
      expect(sliderBounds({ ...RATE, ...fields })).toBeNull();
    }
  );

  it.each([
    ['0.01', 0.01],
    ['1e-4', 1e-4],
    ['', null],
    ['abc', null],
    ['5', null],
    ['Infinity', null]
  ])('takes the typed text %j as %s', (text, value) => {
    expect(parseNumber(text, RATE)).toBe(value);
  });
});

describe('a run that began before the page was opened', () => {
  const sums = { wallMs: 0, inputMs: 0, hostMs: 0, deviceMs: 0, gapMs: 0 };
  const part = (step: number, time: number) => ({
    ...{ step, time, steps: 1, wallMs: 0, watched: { steps: 0, ...sums }, unwatched: sums }
  });
  const checkpoint: BandMessage = {
    type: 'band',
    time: T0,
    run: 'r1',
    kind: 'checkpoint',
    startTime: T0,
    durationMs: 9,
    step: 100,
    inStep: false,
    failed: false
  };
  const stored: StoredRun = {
    ...{ v: 1, key: 'k.r1', kernelId: 'k', run: 'r1', name: 'train', state: 'running' },
    ...{ startedAt: T0 - 9_000_000, lastAt: T0, steps: 9_005, totalSteps: null, config: {}, metrics: {} },
    ...{ hyperparameters: [], totals: { ...sums, compileMs: 0 }, commands: [message('c7', 'applied')] },
    bands: [checkpoint],
    series: {
      loss: { steps: [0, 4_500, 8_999], values: [9, 5, 2], waiting: [[9_001, 1]] },
      accuracy: { steps: [1_000], values: [0.5] }
    },
    parts: { size: 4_500, list: [part(0, T0 - 9_000_000), part(4_500, T0 - 4_500_000)] }
  };

  it('has its whole curve, its bands, its requests and its beginning from the server', () => {
    const scene = new Scene();
    const late = scene.run;
    late.series.clear();
    for (const step of [9_000, 9_001, 9_002]) late.addMetric('loss', step, step / 1_000, T0 + step);
    expect(lacksHistory(late)).toBe(true);
    addPast(late, stored);
    expect(lacksHistory(late)).toBe(false);
    const loss = late.series.get('loss');
    expect([...(loss?.steps ?? [])]).toEqual([0, 4_500, 8_999, 9_000, 9_001, 9_002]);
    expect([...(loss?.values ?? [])]).toEqual([9, 5, 2, 9, 9.001, 9.002]);
    expect([...(loss?.times ?? [])].slice(0, 2)).toEqual([T0 - 9_000_000, T0 - 4_500_000]);
    expect(late.metrics).toEqual({ loss: 9.002, accuracy: 0.5 });
    expect(late.bands).toContainEqual(checkpoint);
    expect(late.commands.map(({ id }) => id)).toContain('c7');
    expect(late.begunAt).toBe(T0 - 9_000_000);
    late.addMetric('loss', 9_003, 7);
    expect(loss?.last).toBe(7);
  });

  it('is distinguished from a run received from its first step on', () => {
    const { run: whole } = new Scene();
    whole.addMetric('loss', 0, 1);
    expect(lacksHistory(whole)).toBe(false);
  });
});

describe('metrics', () => {
  it('of several runs are laid on one axis of steps', () => {
    const source = (key: string, at: number[], values: number[]) => ({
      key,
      label: key,
      series: (name: string) => (name === 'loss' ? { steps: at, values } : null)
    });
    expect(metricColumns([source('a', [0, 2], [1, 3]), source('b', [1, 2], [5, 6])], 'loss')).toEqual([
      [0, 1, 2],
      [1, null, 3],
      [null, 5, 6]
    ]);
    expect(metricNames(['accuracy', 'val_loss', 'loss'])).toEqual(['loss', 'val_loss', 'accuracy']);
  });

  it('of a long run keep their first point, their order and a bound', () => {
    const series = new MetricSeries(128);
    for (let step = 0; step < 10_000; step += 1) {
      series.push(step, step * 2);
    }
    expect(series.length).toBeLessThanOrEqual(128);
    expect(series.length).toBeGreaterThan(32);
    expect(series.steps[0]).toBe(0);
    expect([...series.steps]).toEqual([...series.steps].sort((a, b) => a - b));
    expect([...series.values]).toEqual([...series.steps].map(step => step * 2));
    expect(series.last).toBe(19_998);
    const gaps = [...series.steps.slice(1)].map((step, at) => step - (series.steps[at] ?? 0));
    // Two of each group of the same size, at any position in it.
    expect(Math.max(...gaps)).toBeLessThan(2 * (10_000 / (series.length / 2)));
  });

  it('keep a spike of one step, however long the run is', () => {
    const series = new MetricSeries(128);
    const spikes = new Map([
      [4_321, 500],
      [77_777, -300],
      [90_001, 900]
    ]);
    for (let step = 0; step < 100_000; step += 1) {
      series.push(step, spikes.get(step) ?? Math.sin(step / 50));
    }
    for (const [step, value] of spikes) {
      expect(series.values[series.steps.indexOf(step)]).toBe(value);
    }
    expect(series.length).toBeLessThanOrEqual(128);
  });
});
