// @ts-check
import { describe, expect, it } from 'vitest';
import { coreUse } from './core-use.mjs';

describe('the use of the cores', () => {
  it('is the busy share of the time since its start', () => {
    const measurements = [
      { busy: 1000, all: 5000 },
      { busy: 1300, all: 5400 }
    ];
    const use = coreUse(() => measurements.shift() ?? { busy: 0, all: 0 });
    expect(use()).toBe(75);
  });

  it('is 0 before any time has passed', () => {
    expect(coreUse(() => ({ busy: 3, all: 7 }))()).toBe(0);
  });

  it('is found on this machine', async () => {
    const use = coreUse();
    await new Promise(resolve => setTimeout(resolve, 50));
    expect(use()).toBeGreaterThanOrEqual(0);
    expect(use()).toBeLessThanOrEqual(100);
  });
});
