import { describe, expect, it } from 'vitest';
import { type NetworkChange, NetworkWatch } from './network-watch.js';

function watched() {
  const world = { now: 1_000_000, addresses: 'wlan0 10.0.0.2/24' };
  const watch = new NetworkWatch({ now: () => world.now, addresses: () => world.addresses, pollMs: 2000 });
  const received: NetworkChange[] = [];
  const listening = watch.listen(change => received.push(change));
  /** Runs a check after this many milliseconds. */
  const check = (ms = 2000): void => {
    world.now += ms;
    watch.check();
  };
  return { world, watch, heard: received, listening, look: check };
}

describe('the network of this computer', () => {
  it('causes no report while unchanged, even on a busy machine', () => {
    using scene = { ...watched(), [Symbol.dispose]: () => undefined };
    for (const ms of [2000, 2000, 9000]) scene.look(ms);
    expect(scene.heard).toEqual([]);
    scene.watch[Symbol.dispose]();
  });

  it('is reported as changed once for each new set of addresses', () => {
    const { world, heard: received, look: check, watch } = watched();
    world.addresses = '';
    check();
    check();
    world.addresses = 'eth0 10.0.0.9/24';
    check();
    expect(received).toEqual(['addresses', 'addresses']);
    watch[Symbol.dispose]();
  });

  it('counts as changed after the computer has slept, whatever the addresses', () => {
    const { heard: received, look: check, watch } = watched();
    check(3_600_000);
    check();
    expect(received).toEqual(['clock']);
    watch[Symbol.dispose]();
  });

  it('is not checked without listeners', () => {
    const { world, heard: received, listening, watch } = watched();
    listening[Symbol.dispose]();
    world.addresses = 'other';
    watch.check();
    expect(received).toEqual([]);
  });
});
