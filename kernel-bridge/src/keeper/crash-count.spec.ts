import { describe, expect, it } from 'vitest';
import { CrashCount } from './crash-count.js';
import { STABLE_MS } from '../keeper-protocol/contract.js';

describe('crashes in a row', () => {
  it('allow as many restarts as the limit says', () => {
    const crashes = new CrashCount(2);
    expect([0, 0, 0, 0].map(ms => crashes.mayRestart(ms))).toEqual([true, true, false, false]);
  });

  it('begin anew when the kernel has run for a while, or when somebody asks for a restart', () => {
    const crashes = new CrashCount(1);
    expect([0, STABLE_MS, STABLE_MS, 0].map(ms => crashes.mayRestart(ms))).toEqual([true, true, true, false]);
    crashes.forget();
    expect(crashes.mayRestart(0)).toBe(true);
  });

  it('allow none when the limit is zero', () => {
    expect(new CrashCount(0).mayRestart(STABLE_MS)).toBe(false);
  });
});
