import { beforeEach, describe, expect, it } from 'vitest';
import { RunHistory } from './run-history.js';
import { answer, control, run, step, T0 } from './samples.spec-data.js';

describe('the run that is shown', () => {
  let runs: RunHistory;

  const begins = (id: string, at: number, steerable = false): void => {
    runs.applyRun(run({ run: id, time: T0 + at, ...(steerable ? { control } : {}) }));
  };
  const ends = (id: string): void => runs.applyRun(run({ run: id, state: 'finished' }));
  const makes = (id: string, at: number): void => {
    const steps = [step(0, { startTime: T0 + at })];
    runs.applySteps({ type: 'steps', time: T0 + at + 50, run: id, steps, dropped: 0 });
  };

  beforeEach(() => {
    runs = new RunHistory();
  });

  it('is a new run, immediately, although the steps and the end of the previous loop are reported later', () => {
    begins('evaluation', 0);
    begins('training', 1_000, true);
    makes('evaluation', 900);
    ends('evaluation');
    expect(runs.current?.id).toBe('training');
    expect(runs.current?.steps.length).toBe(0);
  });

  it('has the answers to its commands that arrive before its announcement, and is not a run that only a refusal names', () => {
    runs.applyCommand(answer('a', { run: 'never', phase: 'refused' }));
    for (const phase of ['applied', 'failed', 'expired'] as const) {
      runs.applyCommand(answer(phase, { run: 'short', phase }));
    }
    begins('short', 0, true);
    expect(runs.runs.map(({ id, commands }) => [id, commands.length])).toEqual([['short', 3]]);
  });

  it('is a new run between loops that can only be watched, too', () => {
    begins('first', 0);
    begins('second', 1_000);
    makes('first', 900);
    ends('first');
    expect(runs.current?.id).toBe('second');
  });

  it('stays a live run that can be steered, whatever other loops do', () => {
    begins('training', 0, true);
    begins('evaluation', 1_000);
    makes('evaluation', 1_100);
    expect(runs.current?.id).toBe('training');
    ends('evaluation');
    expect(runs.current?.id).toBe('training');
  });

  it('is another loop once the run that can be steered has ended', () => {
    begins('training', 0, true);
    begins('outer', 500);
    ends('training');
    expect(runs.current?.id).toBe('training');
    makes('outer', 2_000);
    expect(runs.current?.id).toBe('outer');
  });

  it('returns to the outer of two loops with its first step after the inner one', () => {
    begins('outer', 0);
    begins('inner', 1_000);
    makes('inner', 1_000);
    expect(runs.current?.id).toBe('inner');
    makes('outer', 900);
    expect(runs.current?.id).toBe('inner');
    makes('outer', 2_000);
    expect(runs.current?.id).toBe('outer');
  });

  it('is a run that continues after its end', () => {
    begins('training', 0, true);
    ends('training');
    begins('other', 1_000);
    begins('training', 2_000, true);
    makes('other', 1_900);
    expect(runs.current?.id).toBe('training');
  });

  it('is not changed by repeated messages of a run that continues', () => {
    begins('first', 0, true);
    begins('second', 1_000, true);
    begins('first', 2_000, true);
    expect(runs.current?.id).toBe('second');
  });

  it('is a run whose beginning was not received, if no other is live', () => {
    ends('over');
    expect(runs.current?.id).toBe('over');
    makes('known by its steps', 0);
    expect(runs.current?.id).toBe('known by its steps');
  });

  it('is the run chosen by an explicit call', () => {
    begins('first', 0, true);
    runs.applyRun(run({ run: 'short', state: 'finished' }));
    expect(runs.current?.id).toBe('first');
    runs.show('short');
    expect(runs.current?.id).toBe('short');
    runs.show('nobody');
    expect(runs.current?.id).toBe('short');
  });
});
