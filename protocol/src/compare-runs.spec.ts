import { describe, expect, it } from 'vitest';
import { compareRuns, meansOf, momentOf } from './compare-runs.js';
import type { StoredRun, RunProgram } from './runs.js';

interface Made {
  readonly name?: string;
  readonly count?: number;
  readonly spans?: Partial<Record<'inputMs' | 'hostMs' | 'deviceMs' | 'gapMs', number>>;
  readonly programs?: RunProgram[];
  readonly machine?: string;
  readonly config?: StoredRun['config'];
  readonly jitter?: number;
}

function program(name: string, fingerprint: string | null, step = 0): RunProgram {
  const reason = { verdict: 'first', argument: null, before: null, after: null, advice: null } as const;
  return { function: name, step, ms: 10 + step, cacheHit: false, location: null, reason, fingerprint };
}

function made({ name = 'r', count = 100, spans = {}, programs = [], config = {}, ...rest }: Made): StoredRun {
  const each = { inputMs: 1, hostMs: 1, deviceMs: 8, gapMs: 0, ...spans };
  const wallMs = each.inputMs + each.hostMs + each.deviceMs + each.gapMs;
  const none = { wallMs: 0, inputMs: 0, hostMs: 0, deviceMs: 0, gapMs: 0 };
  return {
    ...{ v: 1, key: name, kernelId: 'k', run: name, name, state: 'finished', startedAt: 0, lastAt: 1_000 },
    ...{ steps: count, totalSteps: null, config, metrics: {}, hyperparameters: [], series: {}, bands: [] },
    ...{ commands: [], programs },
    ...(rest.machine === undefined ? {} : { machine: rest.machine }),
    totals: { ...none, compileMs: programs.reduce((sum, { ms }) => sum + ms, 0) },
    parts: {
      size: 1,
      list: Array.from({ length: count }, (_, step) => ({
        ...{ step, time: step * 10, steps: 1, wallMs: wallMs + (rest.jitter ?? 0) * (step % 2 ? 1 : -1) },
        watched: { steps: 1, ...each, wallMs },
        unwatched: none
      }))
    }
  };
}

describe('two runs', () => {
  it('are compared over their common steps: which span grew, which program differs', () => {
    const fast = made({
      name: 'fast',
      programs: [program('step', 'aa'), program('eval', 'cc')],
      config: { lr: 1, n: 2 }
    });
    const slow = made({
      ...{ name: 'slow', count: 60, spans: { inputMs: 15, deviceMs: 14 }, config: { lr: 1, n: 3 } },
      programs: [program('step', 'bb'), program('step', 'bd', 30), program('eval', 'cc')]
    });
    for (const found of [compareRuns(slow, fast), compareRuns(fast, slow)]) {
      expect(found).toMatchObject({ verdict: 'slower', from: 0, to: 60, same: 1, differing: ['n'] });
      expect(found.a).toBe(fast);
      expect(found.grew.slice(0, 2)).toEqual([
        { span: 'input', ms: 14 },
        { span: 'device', ms: 6 }
      ]);
      expect(found.changed).toMatchObject([
        { function: 'step', a: { fingerprint: 'aa' }, b: { fingerprint: 'bd' } }
      ]);
      expect(found.added).toMatchObject([{ function: 'step', step: 30 }]);
    }
  });

  it('count as the same below three percent and within their noise', () => {
    expect(compareRuns(made({}), made({ spans: { hostMs: 1.2 } })).verdict).toBe('same');
    expect(compareRuns(made({ jitter: 5 }), made({ jitter: 5, spans: { hostMs: 1.5 } })).verdict).toBe(
      'same'
    );
    expect(compareRuns(made({}), made({ spans: { hostMs: 1.5 } })).verdict).toBe('slower');
    const [one, other] = [made({ spans: { hostMs: 1.1 }, programs: [program('step', 'aa')] }), made({})];
    // In the given order. A function of only one run was compiled before the other began.
    expect(compareRuns(one, other)).toMatchObject({ a: one, b: other, changed: [], added: [] });
    expect(compareRuns(other, one)).toMatchObject({ a: other, b: one, changed: [], added: [] });
  });

  it('are not compared before ten steps, on different machines, or if one compiles all the time', () => {
    expect(compareRuns(made({}), made({ count: 4 })).verdict).toBe('too-early');
    expect(compareRuns(made({ machine: 'v5e × 8' }), made({ machine: 'v6e × 8' })).verdict).toBe(
      'other-machine'
    );
    const programs = Array.from({ length: 40 }, (_, step) => program('step', null, step));
    const found = compareRuns(made({ programs }), made({ programs: [program('step', 'aa')] }));
    expect(found.verdict).toBe('recompiles');
    expect(found.b.programs).toHaveLength(40);
    // An unknown program is neither changed nor the same.
    expect(found).toMatchObject({ changed: [], same: 0 });
  });

  it('have no split if the device time of one is unknown', () => {
    const unknown = made({ spans: { hostMs: 20 } });
    for (const part of unknown.parts?.list ?? []) {
      Object.assign(part, { watched: { ...part.unwatched, steps: 0 }, unwatched: { ...part.watched } });
    }
    expect(meansOf(unknown)).toMatchObject({ isDeviceKnown: false, stepMs: 29 });
    expect(compareRuns(made({}), unknown)).toMatchObject({ verdict: 'slower', grew: [] });
    expect(meansOf({ ...unknown, parts: undefined })).toBeNull();
  });
});

it('finds when a step began', () => {
  const run = made({ count: 20 });
  expect(momentOf(run, 5)).toBe(50);
  expect(
    momentOf(
      { ...run, parts: { size: 10, list: (run.parts?.list ?? []).filter(({ step }) => step % 10 === 0) } },
      5
    )
  ).toBe(50);
});
