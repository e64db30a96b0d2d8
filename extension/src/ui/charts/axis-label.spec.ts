import { describe, expect, it } from 'vitest';
import { fittingLabel } from './line-chart.js';

describe('a label of the x axis', () => {
  const room = { min: 0, max: 100, width: 300, paddingRight: 6 };

  it('is shown only if the edge of the chart does not cut it off', () => {
    // Eight letters need 24 pixels right of their tick.
    expect(fittingLabel('14:05:09', 90, room)).toBe('14:05:09');
    expect(fittingLabel('14:05:09', 94, room)).toBe('14:05:09');
    expect(fittingLabel('14:05:10', 95, room)).toBe('');
    expect(fittingLabel('14:05:10', 100, room)).toBe('');
    expect(fittingLabel('60', 100, room)).toBe('60');
  });

  it('is shown while the axis has no length yet', () => {
    expect(fittingLabel('0', 0, { width: 300, paddingRight: 6 })).toBe('0');
    expect(fittingLabel('0', 0, { ...room, max: 0 })).toBe('0');
  });
});
