import { describe, expect, it } from 'vitest';
import { Run } from '../events/run.js';
import { step, T0 } from '../events/samples.spec-data.js';
import { StepRing } from '../events/step-ring.js';
import { remainingText } from './progress-line.js';
import { progressOf, shareOf, summarize } from './summary.js';

function ringOf(...samples: Parameters<typeof step>[]): StepRing {
  const ring = new StepRing(64);
  samples.forEach(sample => ring.push(step(...sample)));
  return ring;
}

const COMPILED = { compileMs: 2_950, deviceMs: 0, inputMs: 50, hostMs: 0, gapMs: 0 };

/** An unwatched step of the same length, as the agent sends it. */
const UNWATCHED = { inputMs: 2, hostMs: 48, compileMs: 0, deviceMs: 0, gapMs: 0, deviceKnown: false };

describe('summarize', () => {
  it('is empty without steps', () => {
    expect(summarize(new StepRing(8), 48)).toBeNull();
  });

  it('gives the typical step, its split and the rate', () => {
    const summary = summarize(ringOf([0], [1], [2], [3]), 48);
    expect(summary).toMatchObject({
      count: 4,
      typicalMs: 50,
      meanMs: 50,
      perSecond: 20,
      lastIndex: 3,
      deviceKnown: true
    });
    expect(summary?.spans.map(({ span, percent }) => [span, percent])).toEqual([
      ['input', 4],
      ['host', 6],
      ['compile', 0],
      ['device', 80],
      ['gap', 10]
    ]);
  });

  it('does not mistake a compilation for step time, but shows where the time went', () => {
    const summary = summarize(ringOf([0, COMPILED], [1], [2], [3], [4]), 48);
    expect(summary?.typicalMs).toBe(50);
    expect(summary?.meanMs).toBe(640);
    expect(summary).toMatchObject({ compiledSteps: 1, onlyFirstCompiled: true, compileMs: 2_950 });
    expect(summary?.spans.reduce((sum, { percent }) => sum + percent, 0)).toBe(100);
    expect(summary?.spans.reduce((sum, { meanMs }) => sum + meanMs, 0)).toBeCloseTo(640);
    if (summary) {
      expect(shareOf(summary, 'compile')).toBeCloseTo(2_950 / 3_200);
    }
  });

  it('distinguishes a recompilation later in the run from the first one', () => {
    expect(summarize(ringOf([0, COMPILED], [1], [2, COMPILED]), 48)?.onlyFirstCompiled).toBe(false);
    expect(summarize(ringOf([5, COMPILED], [6]), 48)?.onlyFirstCompiled).toBe(false);
  });

  it('counts no evaluation where only rounded parts differ from the whole', () => {
    const rounded = { wallMs: 50.003 };
    expect(summarize(ringOf([0, rounded], [1, rounded]), 48)?.bandsMs).toBe(0);
  });

  it('excludes an evaluation inside a step from the step time', () => {
    const evaluated = { wallMs: 1_550, bands: { evaluate: 1_500 } };
    const unwatched = { ...evaluated, deviceMs: 0, hostMs: 43, deviceKnown: false };
    const plain = summarize(ringOf([0], [1], [2], [3]), 48);
    for (const sample of [evaluated, unwatched]) {
      const summary = summarize(ringOf([0], [1], [2, sample], [3]), 48);
      expect(summary).toMatchObject({ typicalMs: 50, meanMs: 50, bandsMs: 1_500 });
      expect(summary?.spans).toEqual(plain?.spans);
    }
  });

  it('gives the mean where most steps only queue their work, and the median beside it', () => {
    const queued = { wallMs: 2, inputMs: 0, hostMs: 2, deviceMs: 0, gapMs: 0, deviceKnown: false };
    const summary = summarize(ringOf([0, queued], [1, queued], [2, queued], [3]), 48);
    expect(summary).toMatchObject({ typicalMs: 14, medianMs: 2 });
  });

  it('uses only the newest steps', () => {
    const summary = summarize(ringOf([0, COMPILED], [1], [2]), 2);
    expect(summary).toMatchObject({ count: 2, compiledSteps: 0, meanMs: 50 });
  });

  it('reports when the device of no step was watched', () => {
    expect(summarize(ringOf([0, UNWATCHED], [1, UNWATCHED]), 48)?.deviceKnown).toBe(false);
    expect(summarize(ringOf([0, { ...COMPILED, deviceKnown: false }]), 48)?.deviceKnown).toBe(false);
  });

  it('splits the time of unwatched steps like the time of watched ones', () => {
    const plain = summarize(ringOf([0], [1], [2], [3]), 48);
    const summary = summarize(ringOf([0, UNWATCHED], [1], [2, UNWATCHED], [3]), 48);
    expect(summary).toMatchObject({ deviceKnown: true, meanMs: 50 });
    expect(summary?.spans).toEqual(plain?.spans);
  });

  it('does not mistake a step that compiled for an unwatched step', () => {
    const summary = summarize(ringOf([0, { ...COMPILED, deviceKnown: false }], [1], [2], [3], [4]), 48);
    expect(summary).toMatchObject({ deviceKnown: true, compileMs: 2_950, meanMs: 640 });
  });

  it('gives no rate for steps that began in the same instant', () => {
    expect(summarize(ringOf([0], [1, { startTime: T0 }]), 48)?.perSecond).toBeNull();
    expect(summarize(ringOf([0]), 48)?.perSecond).toBeNull();
  });
});

describe('progressOf', () => {
  const run = (totalSteps: number | null, state: Run['state'] = 'running'): Run => {
    const made = new Run('train');
    made.totalSteps = totalSteps;
    made.state = state;
    return made;
  };

  it('estimates the remaining time without counting the compilation again', () => {
    const rest = Array.from({ length: 10 }, (_, at): Parameters<typeof step> => [at + 1]);
    const summary = summarize(ringOf([0, COMPILED], ...rest), 48);
    expect(summary && progressOf(run(20), summary)).toEqual({ done: 11, total: 20, remainingMs: 9 * 50 });
  });

  it('is empty before ten steady steps, and while paused', () => {
    const first = Array.from({ length: 10 }, (_, at): Parameters<typeof step> =>
      at === 0 ? [0, COMPILED] : [at]
    );
    const early = summarize(ringOf(...first), 48);
    expect(early && progressOf(run(20), early)?.remainingMs).toBeNull();
    const enough = summarize(ringOf(...first, [10], [11]), 48);
    const paused = run(20);
    paused.control = { state: 'paused', actions: [], hyperparameters: [], config: {}, log: null };
    expect(enough && progressOf(paused, enough)?.remainingMs).toBeNull();
  });

  it('counts compiling where each step compiles', () => {
    const always = Array.from({ length: 24 }, (_, at): Parameters<typeof step> => [at, COMPILED]);
    const summary = summarize(ringOf(...always), 48);
    expect(summary && progressOf(run(30), summary)?.remainingMs).toBe(6 * 3_000);
  });

  it('names the loop where several have begun and their number is unknown', () => {
    const epochs = run(120);
    expect(remainingText(epochs, 6_000)).toBe('6 s left');
    epochs.isOpenEnded = true;
    expect(remainingText(epochs, 6_000)).toBe('6 s left in this loop');
  });

  it('promises nothing for a run that has ended, or with too few steps', () => {
    const few = summarize(ringOf([0], [1]), 48);
    const enough = summarize(ringOf([0], [1], [2]), 48);
    expect(few && progressOf(run(10), few)?.remainingMs).toBeNull();
    expect(enough && progressOf(run(10, 'failed'), enough)?.remainingMs).toBeNull();
  });

  it('is null when the run has not reported its length', () => {
    const summary = summarize(ringOf([0]), 48);
    expect(summary && progressOf(run(null), summary)).toBeNull();
  });
});
