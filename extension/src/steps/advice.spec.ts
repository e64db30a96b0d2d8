import type { StepSample } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { step } from '../events/samples.spec-data.js';
import { StepRing } from '../events/step-ring.js';
import { fromBackticks } from '../text/marked.js';
import { type Advice, adviceFor } from './advice.js';
import { summarize } from './summary.js';
const SPANS = { inputMs: 0, hostMs: 0, compileMs: 0, deviceMs: 0, gapMs: 0 };

function advise(
  fields: Partial<StepSample>,
  extra: [number, Partial<StepSample>][] = [],
  reason: string | null = null
): Advice {
  const ring = new StepRing(64);
  for (let index = 0; index < 20; index += 1) {
    const special = extra.find(([at]) => at === index);
    ring.push(step(index, { ...SPANS, ...(special ? special[1] : fields) }));
  }
  const summary = summarize(ring, 48);
  if (!summary) {
    throw new Error('no steps');
  }
  return adviceFor(summary, reason);
}

const DEVICE_BOUND = { deviceMs: 85, hostMs: 5, inputMs: 5, gapMs: 5 };
const COMPILED = { ...SPANS, compileMs: 3_000 };

describe('adviceFor', () => {
  it('gives no advice about a step whose limit is the device', () => {
    expect(advise(DEVICE_BOUND)).toEqual({
      limit: 'device',
      act: false,
      text: 'The device is the limit. Nothing to fix in the input pipeline.'
    });
  });

  it('names the input when the device waits for it', () => {
    const advice = advise({ deviceMs: 60, inputMs: 32, hostMs: 5, gapMs: 3 });
    expect(advice).toMatchObject({ limit: 'input', act: true });
    expect(advice.text).toContain('32% of the time');
  });

  it.each([
    ['host', { deviceMs: 30, hostMs: 60, inputMs: 5, gapMs: 5 }],
    ['gap', { deviceMs: 70, hostMs: 5, inputMs: 5, gapMs: 20 }],
    ['mixed', { deviceMs: 62, hostMs: 20, inputMs: 9, gapMs: 9 }]
  ] as const)('finds the limit %s', (limit, spans) => {
    expect(advise(spans).limit).toBe(limit);
  });

  it('names the largest of several limits', () => {
    expect(advise({ deviceMs: 30, hostMs: 35, inputMs: 20, gapMs: 15 }).limit).toBe('host');
    expect(advise({ deviceMs: 30, hostMs: 26, inputMs: 29, gapMs: 15 }).limit).toBe('input');
  });

  it('does not act at a limit, only above it', () => {
    expect(advise({ deviceMs: 80, inputMs: 10, gapMs: 10 }).act).toBe(false);
    expect(advise({ deviceMs: 79.8, inputMs: 10.2, gapMs: 10 }).act).toBe(true);
  });

  it('judges the steps after the first compilation without it', () => {
    expect(advise(DEVICE_BOUND, [[0, COMPILED]]).limit).toBe('device');
    expect(advise({ deviceMs: 60, inputMs: 40 }, [[0, COMPILED]])).toMatchObject({ limit: 'input' });
  });

  it('mentions the single compilation that the split shows', () => {
    expect(advise(DEVICE_BOUND, [[0, COMPILED]]).text).toMatch(
      /^The first step compiled for 3.00 s, as expected. The device/
    );
    expect(advise(DEVICE_BOUND, [[7, COMPILED]]).text).toMatch(
      /^One step recompiled, for 3.00 s. The device/
    );
  });

  it('shows the cost of the repeated compilations, and the known remedy', () => {
    const advice = advise(
      DEVICE_BOUND,
      [
        [0, COMPILED],
        [9, COMPILED]
      ],
      'Pad the last batch to 16.'
    );
    expect(advice).toMatchObject({ limit: 'compile', act: true });
    expect(advice.text).toBe(
      '2 of the last 20 steps recompiled, which took 77% of the time. Pad the last batch to 16.'
    );
    expect(
      advise(DEVICE_BOUND, [
        [4, COMPILED],
        [9, COMPILED]
      ]).text
    ).toContain('Keep shapes');
  });

  it('waits for a few steps before it judges', () => {
    const ring = new StepRing(8);
    ring.push(step(0, COMPILED));
    ring.push(step(1));
    const summary = summarize(ring, 48);
    expect(summary && adviceFor(summary, null)).toMatchObject({
      limit: 'measuring',
      text: 'The first step compiled for 3.00 s. The next ones show how fast it is.'
    });
  });

  it('does not blame host or gap for time that may be the device', () => {
    const unwatched = { deviceKnown: false, hostMs: 60, gapMs: 40 };
    expect(advise(unwatched).limit).toBe('unwatched');
    expect(advise({ ...unwatched, inputMs: 50 }).limit).toBe('input');
  });

  it('names the requirement for knowing the device time', () => {
    const { text } = advise({ deviceKnown: false, hostMs: 100 });
    const code = fromBackticks(text).filter(piece => piece.code);
    expect(code.map(piece => piece.text)).toEqual([
      'tpulab.watch(loss)',
      'tpulab.steps(…, watch=lambda: loss)'
    ]);
  });
});
