import { expect, it } from 'vitest';
import { remote } from '../testing/remotes.js';
import { remoteCards } from './state-text.js';

it('shows recent remotes with their state, connected or connecting ones first', () => {
  const away = ['a', 'b', 'c', 'd'].map((name, index) => remote({ name, lastConnectedAt: index }));
  const back = remote({ name: 'back', state: 'reconnecting', nextAttemptAt: 9_000, lastConnectedAt: 7 });
  const all = [...away, remote({ name: 'gone', state: 'preempted', lastConnectedAt: 9 }), back];
  all.push(remote({ name: 'up', state: 'connected', lastConnectedAt: 8 }));
  expect(remoteCards(all, 0).map(({ label }) => label)).toEqual([
    'up (connected)',
    'back (reconnecting)',
    'gone (preempted)',
    'd (not connected)'
  ]);
});
