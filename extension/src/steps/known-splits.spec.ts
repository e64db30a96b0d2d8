/**
 * The panel's shares and sentence on steps of known splits, as the agent records them on a simulated device
 * (`kernel-agent/tests/known-splits.json`): within five points of the truth, or "not known".
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { MAX_STEPS } from '../events/run.js';
import { SPANS, StepRing } from '../events/step-ring.js';
import { T0 } from '../events/samples.spec-data.js';
import { adviceFor } from './advice.js';
import { shareOf, type StepSummary, summarize } from './summary.js';

interface Case {
  /** Shares of the spans, calculated by hand; omitted ones are 0. */
  readonly split: Readonly<Record<string, number>>;
  /** The accepted verdicts on the limit. */
  readonly limit: readonly string[];
  /** Unlike steps (the spans in order, then whether the device is known), and how many of each were consecutive. */
  readonly recorded: {
    readonly rows: readonly (readonly number[])[];
    readonly order: readonly (readonly [number, number])[];
  };
}

const TABLE = new URL('../../../kernel-agent/tests/known-splits.json', import.meta.url);
const CASES = JSON.parse(readFileSync(TABLE, 'utf-8')) as Record<string, Case>;
const POINTS = 0.05;
/** Window sizes of the panel in steps, from the narrowest. */
const WINDOWS = [16, 64, 256];

function ringOf({ recorded }: Case): StepRing {
  const ring = new StepRing(MAX_STEPS);
  let startTime = T0;
  for (const [row, count] of recorded.order) {
    const [inputMs = 0, hostMs = 0, compileMs = 0, deviceMs = 0, gapMs = 0, known] = recorded.rows[row] ?? [];
    const wallMs = inputMs + hostMs + compileMs + deviceMs + gapMs;
    for (let at = 0; at < count; at += 1) {
      const spans = { inputMs, hostMs, compileMs, deviceMs, gapMs, deviceKnown: known === 1 };
      ring.push({ index: ring.added, startTime, wallMs, ...spans });
      startTime += wallMs;
    }
  }
  return ring;
}

function summaryOf(one: Case, window: number): StepSummary {
  const summary = summarize(ringOf(one), window);
  if (!summary) {
    throw new Error('no steps');
  }
  return summary;
}

describe.each(Object.entries(CASES))('%s', (_, one) => {
  it.each(WINDOWS)('has shares that are true, or unknown, in a window of %d', window => {
    const summary = summaryOf(one, window);
    if (!summary.deviceKnown) {
      return;
    }
    for (const span of SPANS) {
      expect(Math.abs(shareOf(summary, span) - (one.split[span] ?? 0)), span).toBeLessThan(POINTS);
    }
  });

  it.each(WINDOWS)('is not blamed on a span that does not limit it, in a window of %d', window => {
    const { limit } = adviceFor(summaryOf(one, window), null);
    expect([...one.limit, 'unwatched', 'measuring']).toContain(limit);
  });
});

it('knows most of the splits', () => {
  const known = Object.values(CASES).filter(one => summaryOf(one, 256).deviceKnown);
  expect(known.length).toBeGreaterThan(0.9 * Object.keys(CASES).length);
});
