import { describe, expect, it } from 'vitest';
import { RemoteState } from '@tpulab/protocol';
import { Failures, waitBefore } from './next-attempt.js';
import { RemoteProblem } from './remote-error.js';
import type { RemotePhase } from './remote-report.js';
import { canFollow, follow } from './remote-report.js';

const STATES = RemoteState.anyOf.map(({ const: state }) => state);

describe('states of a remote', () => {
  it('can be left for "disconnected" at any time, because a person may no longer want it', () => {
    for (const state of STATES.filter(one => one !== 'disconnected')) {
      expect([state, canFollow(state, 'disconnected')]).toEqual([state, true]);
    }
  });

  it('lead to "connected" only by way of an attempt', () => {
    const before = STATES.filter(state => canFollow(state, 'connected'));
    expect(before).toEqual(['connecting', 'setting-up']);
  });

  it('a transition that is not in the table is a mistake in the program', () => {
    expect(() => follow({ kind: 'disconnected' }, { kind: 'connected', since: 0, gatewayId: 'x' })).toThrow(
      'a machine cannot go from disconnected to connected'
    );
  });
});

describe('the wait before another attempt', () => {
  it('doubles from one second to half a minute, without a limit of attempts', () => {
    const waits = [1, 2, 3, 4, 5, 6, 7, 1000].map(failures => waitBefore(failures, 0));
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
  });

  it('is shortened by up to a quarter, and never below a second', () => {
    expect(waitBefore(6, 1)).toBe(22_500);
    expect(waitBefore(1, 1)).toBe(1000);
  });
});

describe('a first connection', () => {
  const after = (kind: 'connecting' | 'setting-up', code: 'remote_lost' | 'remote_unreachable') =>
    [{ kind }, new RemoteProblem(code, 'why')] as const;
  const tries = async (...failures: (readonly [RemotePhase, RemoteProblem])[]): Promise<string[]> => {
    const all = new Failures();
    const record = { source: { kind: 'ssh' as const, destination: 'vm' }, lastConnectedAt: null };
    const fixed = {
      name: 'vm',
      record,
      queuePollMs: 1,
      isBeingPreempted: false,
      hasRuntime: async () => false
    };
    const kinds: string[] = [];
    for (const [phase, problem] of failures)
      kinds.push((await all.next({ ...fixed, phase }, problem, kinds.length + 1)).phase?.kind ?? '');
    return kinds;
  };

  it('fails immediately if the machine does not answer, or ends the connection before a setup', async () => {
    expect(await tries(after('connecting', 'remote_unreachable'))).toEqual(['failed']);
    expect(await tries(after('connecting', 'remote_lost'))).toEqual(['failed']);
  });

  it('continues automatically after the connection was lost during a setup, even while the machine does not answer', async () => {
    const cut = [after('setting-up', 'remote_lost'), after('connecting', 'remote_unreachable')];
    expect(await tries(...cut)).toEqual(['reconnecting', 'reconnecting']);
  });
});
