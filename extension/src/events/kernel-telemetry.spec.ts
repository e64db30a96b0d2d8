import { MAX_METRICS } from '@tpulab/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CHANGED_INTERVAL_MS, KernelTelemetry } from './kernel-telemetry.js';
import { MAX_RUNS } from './run-history.js';
import { MAX_STEPS } from './run.js';
import {
  answer,
  compile,
  control,
  devices,
  hello,
  kernelState,
  run,
  steps,
  T0,
  telemetry
} from './samples.spec-data.js';

describe('KernelTelemetry', () => {
  let kernel: KernelTelemetry;
  let seq = 0;

  const receive = (...messages: Parameters<typeof telemetry>[2][]): void => {
    for (const message of messages) {
      seq += 1;
      kernel.applyTelemetry(telemetry('k', seq, message), T0);
    }
  };

  beforeEach(() => {
    vi.useFakeTimers();
    seq = 0;
    kernel = new KernelTelemetry('k');
  });

  afterEach(() => {
    kernel.dispose();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  it('starts with nothing known, which is an ordinary state', () => {
    expect(kernel.devices).toBeNull();
    expect(kernel.agent).toBeNull();
    expect(kernel.runs.current).toBeNull();
    expect(kernel.lastSeq).toBe(0);
  });

  it('collects devices, runs, steps with their metrics and compilations', () => {
    receive(
      hello(),
      devices(),
      run({ totalSteps: 100 }),
      compile(1),
      steps(0, 3, { metrics: { loss: 2.5 } })
    );
    expect(kernel.devices?.devices).toHaveLength(8);
    expect(kernel.runs.current).toMatchObject({ name: 'train', totalSteps: 100, metrics: { loss: 2.5 } });
    expect(kernel.runs.current?.steps.length).toBe(3);
    expect(kernel.compilations.count).toBe(1);
    expect(kernel.lastSeq).toBe(5);
  });

  it('a replay of known events changes nothing', () => {
    const messages = [hello(), run(), steps(0, 3), compile(1)];
    receive(...messages);
    seq = 0;
    receive(...messages);
    expect(kernel.runs.current?.steps.length).toBe(3);
    expect(kernel.compilations.count).toBe(1);
    expect(kernel.lastSeq).toBe(4);
  });

  it('counts telemetry that the bridge no longer stored', () => {
    receive(hello());
    seq = 10;
    receive(run());
    expect(kernel.missed).toBe(9);
  });

  it('continues when the numbering restarts', () => {
    receive(hello(), run(), steps(0, 3));
    seq = 0;
    receive(hello({ pid: 101, time: T0 + 60_000 }), run({ name: 'second' }));
    expect(kernel.runs.current?.name).toBe('second');
    expect(kernel.lastSeq).toBe(2);
  });

  it('makes runs and compilations of an ended process interrupted, and forgets its devices', () => {
    receive(hello(), devices(), run(), compile(1, { phase: 'started' }));
    const first = kernel.runs.current;
    receive(hello({ pid: 200, time: T0 + 5_000 }), run({ run: 'r2', name: 'again' }), compile(2));
    expect(first?.state).toBe('interrupted');
    expect(kernel.runs.current?.name).toBe('again');
    expect(kernel.devices).toBeNull();
    expect(kernel.compilations.entries.map(entry => entry.state)).toEqual(['interrupted', 'finished']);
  });

  it('has the reports of a short run of a new process, in any order of the two connections', () => {
    const answers = (['applied', 'failed'] as const).map((phase, at) => answer(`c${at}`, { phase }));
    receive(hello(), run({ run: 'before' }));
    receive(...answers, hello({ pid: 200, time: T0 + 5_000 }), run({ state: 'finished' }), steps(0, 3));
    expect(kernel.runs.runs.map(({ id, state }) => [id, state])).toEqual([
      ['before', 'interrupted'],
      ['r1', 'finished']
    ]);
    expect(kernel.runs.current?.commands).toEqual(answers);
  });

  it('has pictures, and as many metrics as the agent sends', () => {
    const medium = {
      type: 'media',
      time: T0,
      run: 'r1',
      id: 1,
      step: 2,
      name: 'a',
      mime: 'image/png'
    } as const;
    const metrics = Object.fromEntries(Array.from({ length: MAX_METRICS + 9 }, (_, at) => [`m${at}`, at]));
    receive(hello(), run(), medium, medium, steps(0, 1, { metrics }));
    expect(kernel.runs.current?.media).toEqual([medium]);
    expect(kernel.runs.current?.series.size).toBe(MAX_METRICS);
  });

  it('is not misled by a second greeting of the same process', () => {
    receive(hello(), devices(), run());
    receive(hello({ time: T0 + 9_000 }), steps(0, 1));
    expect(kernel.devices).not.toBeNull();
    expect(kernel.runs.runs).toHaveLength(1);
  });

  it('leaves nothing running in a dead kernel, even when its history comes after its end', () => {
    kernel.applyState(kernelState('k', 'dead', { reason: 'killed by SIGKILL' }));
    receive(hello(), devices(), run(), compile(1, { phase: 'started' }));
    expect(kernel.isDead).toBe(true);
    expect(kernel.runs.current?.state).toBe('interrupted');
    expect(kernel.compilations.running).toEqual([]);
    expect(kernel.devices).toBeNull();
  });

  it('holds a bounded number of steps and runs', () => {
    receive(hello(), run(), steps(0, MAX_STEPS + 100));
    expect(kernel.runs.current?.steps.length).toBe(MAX_STEPS);
    expect(kernel.runs.current?.steps.index(0)).toBe(100);
    for (let at = 0; at < MAX_RUNS + 3; at += 1) {
      receive(run({ run: `other-${at}` }));
    }
    expect(kernel.runs.runs).toHaveLength(MAX_RUNS);
    expect(kernel.runs.current?.id).toBe(`other-${MAX_RUNS + 2}`);
  });

  it('retains the shown run when others are dropped', () => {
    receive(hello(), run({ run: 'long', control }), steps(0, 1, {}, 'long'));
    for (let at = 0; at < MAX_RUNS + 3; at += 1) {
      receive(run({ run: `evaluation-${at}` }), run({ run: `evaluation-${at}`, state: 'finished' }));
    }
    expect(kernel.runs.runs).toHaveLength(MAX_RUNS);
    expect(kernel.runs.current?.id).toBe('long');
    expect(kernel.runs.runs.map(({ id }) => id)).toContain(`evaluation-${MAX_RUNS + 2}`);
  });

  it('knows each attached client until it detaches or the link is lost', () => {
    const client = {
      topic: 'clients',
      kernelId: 'k',
      sessionId: 's',
      state: 'replaying',
      pending: 5
    } as const;
    kernel.applyClient(client);
    expect(kernel.client('s')?.pending).toBe(5);
    kernel.applyClient({ ...client, state: 'detached', pending: 0 });
    expect(kernel.client('s')).toBeNull();
    kernel.applyClient(client);
    kernel.forgetClients();
    expect(kernel.client('s')).toBeNull();
  });

  it('reports a burst immediately and then once more, never more often than its interval', () => {
    let reported = 0;
    kernel.changed.connect(() => {
      reported += 1;
    });
    receive(hello());
    expect(reported).toBe(1);
    for (let at = 0; at < 50; at += 1) {
      receive(steps(at, 1));
    }
    expect(reported).toBe(1);
    vi.advanceTimersByTime(CHANGED_INTERVAL_MS);
    expect(reported).toBe(2);
    vi.advanceTimersByTime(CHANGED_INTERVAL_MS * 10);
    expect(reported).toBe(2);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('knows how far the clock of the kernel is ahead', () => {
    kernel.applyTelemetry(telemetry('k', 1, hello({ time: T0 + 3_000 })), T0);
    kernel.applyTelemetry(telemetry('k', 2, run({ time: T0 - 9_000 })), T0);
    expect(kernel.clockAheadMs).toBe(3_000);
  });
});
