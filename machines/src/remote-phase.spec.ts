import { describe, expect, it } from 'vitest';
import { RemoteState } from '@tpulab/protocol';
import { waitBefore } from './next-attempt.js';
import { canFollow, follow } from './remote-report.js';

const STATES = RemoteState.anyOf.map(({ const: state }) => state);

describe('states of a remote', () => {
  it('can be left for "disconnected" at any time, because a person may not want it any more', () => {
    for (const state of STATES.filter(one => one !== 'disconnected')) {
      expect([state, canFollow(state, 'disconnected')]).toEqual([state, true]);
    }
  });

  it('lead to "connected" by way of an attempt alone', () => {
    const before = STATES.filter(state => canFollow(state, 'connected'));
    expect(before).toEqual(['connecting', 'setting-up']);
  });

  it('a step that the table does not have is a mistake in the program', () => {
    expect(() => follow({ kind: 'disconnected' }, { kind: 'connected', since: 0, gatewayId: 'x' })).toThrow(
      'a machine cannot go from disconnected to connected'
    );
  });
});

describe('the wait before another attempt', () => {
  it('doubles from one second to half a minute, without end', () => {
    const waits = [1, 2, 3, 4, 5, 6, 7, 1000].map(failures => waitBefore(failures, 0));
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
  });

  it('is cut by up to a quarter, and never below a second', () => {
    expect(waitBefore(6, 1)).toBe(22_500);
    expect(waitBefore(1, 1)).toBe(1000);
  });
});
