import { describe, expect, it } from 'vitest';
import { TelemetryHistory } from './telemetry-history.js';

function filled(count: number, limits: { events: number; bytes: number }): TelemetryHistory {
  const history = new TelemetryHistory(limits);
  for (let seq = 1; seq <= count; seq++) history.add({ seq, topic: 'steps', json: 'x'.repeat(10) });
  return history;
}

describe('TelemetryHistory', () => {
  it('gives what comes after a seq, oldest first', () => {
    const history = filled(5, { events: 10, bytes: 1000 });
    expect([...history.after(2)].map(event => event.seq)).toEqual([3, 4, 5]);
    expect([...history.after(5)]).toEqual([]);
  });

  it.each([
    ['number', { events: 3, bytes: 1e9 }],
    ['size', { events: 1e9, bytes: 30 }]
  ])('lets the oldest give way by %s, and says where it begins', (_what, limits) => {
    const history = filled(10_000, limits);
    expect([...history.after(0)].map(event => event.seq)).toEqual([9998, 9999, 10_000]);
    expect(history.from).toBe(9998);
  });

  it('begins at 1 when it is empty, and after the newest when that was too large to hold', () => {
    expect(new TelemetryHistory().from).toBe(1);
    expect(filled(4, { events: 10, bytes: 5 }).from).toBe(5);
  });
});
