import { describe, expect, it } from 'vitest';
import { Run } from '../events/run.js';
import { run as runMessage, step, steps, T0 } from '../events/samples.spec-data.js';
import { StepRing } from '../events/step-ring.js';
import { scaleOf } from './chart-geometry.js';
import { fileName, toCsv } from './export.js';
import { badputName, computeFigure, throughputFigure } from './throughput.js';
import { marksOf, positionOf } from './step-marks.js';
import { behind, MIN_COUNT, moved, zoomed } from './step-window.js';

function runOf(count: number, name = 'train'): Run {
  const made = new Run('r1');
  made.applyRun(runMessage({ name }));
  made.applySteps(steps(0, count, { metrics: { loss: 0.5 } }));
  return made;
}

describe('the window of the timeline', () => {
  const live = { count: 48, end: null };

  it('follows the newest step until it is moved, and again when it is back', () => {
    expect(behind(live, 500, 500)).toBe(0);
    const earlier = moved(live, -100, 500, 500);
    expect(behind(earlier, 500, 500)).toBe(100);
    // It keeps its position while steps arrive.
    expect(behind(earlier, 600, 600)).toBe(200);
    expect(moved(earlier, 1_000, 600, 600).end).toBeNull();
  });

  it('never shows fewer steps than are visible, nor more than are stored, nor any dropped ones', () => {
    expect(zoomed(live, 0.001, 500).count).toBe(MIN_COUNT);
    expect(zoomed(live, 1_000, 500).count).toBe(500);
    const oldest = moved(live, -10_000, 5_000, 2_048);
    const { first, count } = scaleOf(ringOf(2_048), 48, AREA, behind(oldest, 5_000, 2_048));
    expect(first).toBe(0);
    expect(count).toBe(48);
  });

  const AREA = { left: 0, top: 0, width: 300, height: 100 };
  const ringOf = (count: number): StepRing => {
    const ring = new StepRing(2_048);
    for (let at = 0; at < count; at += 1) {
      ring.push(step(at));
    }
    return ring;
  };
});

describe('marks of the timeline', () => {
  it('are work besides the steps and applied commands, each once', () => {
    const run = runOf(30);
    const band = { type: 'band', time: T0, run: 'r1', startTime: T0, inStep: false, failed: false } as const;
    run.apply({ ...band, kind: 'checkpoint', durationMs: 1_900, step: 10 });
    const command = {
      type: 'control',
      time: T0,
      run: 'r1',
      name: null,
      value: null,
      before: null,
      origin: 'page',
      durationMs: null,
      reason: null
    } as const;
    run.applyCommand({ ...command, id: 'a', action: 'checkpoint', phase: 'applied', step: 10 });
    run.applyCommand({ ...command, id: 'b', action: 'stop', phase: 'accepted', step: null });
    run.applyCommand({
      ...command,
      id: 'c',
      action: 'set',
      name: 'rate',
      value: 1e-4,
      before: 2e-4,
      phase: 'applied',
      step: 20
    });
    expect(marksOf(run)).toEqual([
      { index: 10, kind: 'checkpoint', text: 'checkpoint 1.90 s' },
      { index: 20, kind: 'command', text: 'rate 2.00e-4 → 1.00e-4' }
    ]);
  });

  it('are placed by the number of their step, even where steps were dropped', () => {
    const ring = new StepRing(4);
    [3, 4, 9, 10, 11].forEach(index => ring.push(step(index)));
    expect([3, 4, 7, 11, 12].map(index => positionOf(ring, index))).toEqual([null, 0, 1, 3, null]);
  });
});

describe('the exports', () => {
  it('is a table with a line for each step, whose spans add up', () => {
    const [head = '', ...lines] = toCsv(runOf(3)).trimEnd().split('\r\n');
    expect(head).toBe(
      'step,start_unix_ms,wall_ms,input_ms,host_ms,compile_ms,device_ms,gap_ms,device_known,loss'
    );
    expect(lines).toHaveLength(3);
    for (const line of lines) {
      const [, , wall, ...rest] = line.split(',').map(Number);
      expect(rest.slice(0, 5).reduce((sum, ms) => sum + ms, 0)).toBeCloseTo(wall ?? 0);
      expect(rest.at(-1)).toBe(0.5);
    }
  });

  it('cannot make a spreadsheet compute, whatever a metric is called', () => {
    const run = runOf(1);
    run.addMetric('=HYPERLINK("x")', 0, 1);
    expect(toCsv(run).split('\r\n')[0]).toContain(`"'=HYPERLINK(""x"")"`);
  });

  it.each([
    ['train loop', 'train-loop.csv'],
    ['../../etc/passwd', 'etc-passwd.csv'],
    ['…', 'steps.csv']
  ])('of the run %j goes into %j', (name, file) => {
    expect(fileName(runOf(1, name), 'csv')).toBe(file);
  });
});

describe('the throughput of a run', () => {
  const message = {
    type: 'pace',
    time: T0,
    run: 'r1',
    step: 10,
    stepsPerSecond: 20,
    tokensPerSecond: 12_345,
    samplesPerSecond: null,
    etaSeconds: 60,
    goodput: { productiveMs: 80, totalMs: 100, badputMs: { DATA_LOADING_SYNC: 20 } }
  } as const;
  const mfu = { flopsPerStep: 1e12, flopsPerSecond: 2e13, peakFlopsPerSecond: 1.97e14, peakType: 'bf16' };
  const texts = (given: Parameters<typeof computeFigure>[0]) =>
    [computeFigure(given), throughputFigure(given)].flatMap(figure =>
      figure ? [`${figure.value} ${figure.unit}`] : []
    );

  it('has an MFU with its source, or states that it is a lower bound', () => {
    expect(texts({ ...message, mfu: { ...mfu, value: 0.41, source: 'counted' } })).toEqual([
      '41.0% MFU',
      '12,345 tokens/s'
    ]);
    expect(texts({ ...message, mfu: { ...mfu, value: 0.41, source: 'lower-bound' } })[0]).toBe('≥ 41.0% MFU');
  });

  it('counts the updates of a run with several per step, unless it knows tokens', () => {
    const updates = { ...message, mfu: null, updatesPerSecond: 2_000 };
    expect(texts({ ...updates, tokensPerSecond: null })).toEqual(['2,000 updates/s']);
    expect(texts(updates)).toEqual(['12,345 tokens/s']);
  });

  it('names the parts that a lower bound omits, and its peak', () => {
    const bound = computeFigure({ ...message, mfu: { ...mfu, value: 0.1, source: 'lower-bound' } });
    expect(bound?.source).toContain(
      'loops of unknown length count once, a branch as its cheapest arm; custom kernels'
    );
    expect(bound?.rows).toEqual([
      ['Achieved', '20.0 TFLOP/s'],
      ['Peak in bf16', '200 TFLOP/s']
    ]);
  });

  it('has a rate and no MFU on a chip whose peak is not known', () => {
    const unknown = {
      ...mfu,
      value: null,
      peakFlopsPerSecond: null,
      peakType: null,
      source: 'given'
    } as const;
    expect(texts({ ...message, mfu: unknown })[0]).toBe('20.0 TFLOP/s');
    expect(texts({ ...message, mfu: { ...unknown, source: 'lower-bound' } })[0]).toBe('≥ 20.0 TFLOP/s');
    expect(texts({ ...message, mfu: null })).toEqual(['12,345 tokens/s']);
  });

  it("has ml-goodput's causes in words, and an unknown cause unchanged", () => {
    expect(badputName('DATA_LOADING_SYNC')).toBe('waiting for data');
    expect(badputName('constructor')).toBe('constructor');
  });
});
