/** Faults between client and gateway. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { COUNT, judge, printingPair, share } from './testing/pair.js';
import { Scene } from './testing/scene.js';
import { AT_LEAST_ONCE, faultEnds, IS_FULL, WHOLE } from './testing/scoreboard.js';
import { Tunnel } from './testing/tunnel.js';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

let scene: Scene;

afterEach(async () => scene[Symbol.asyncDispose]());

describe('a client whose connection is lost', () => {
  it('repeatedly and without notice while the kernel prints, misses nothing', async () => {
    scene = await Scene.start();
    const pair = await printingPair(scene);
    for (const part of [0.2, 0.4, 0.6]) {
      await share(scene, pair, part);
      for (const client of pair.all) {
        // Only a client that has reconnected can be cut off again.
        await client.until(() => client.isOpen, 'to be back');
        client.abort();
      }
    }
    const [stock, ours] = await judge(scene, pair, 'browser socket aborted, three times', faultEnds(scene));
    expect(stock).toMatchObject({ ...AT_LEAST_ONCE, replyFaults: 0 });
    expect(ours).toMatchObject(WHOLE);
    for (const client of pair.all) expect(client.connections).toBeGreaterThan(2);
  });
});

describe('a tunnel that freezes', () => {
  // 130 s: the gateway disconnects a client after 90 s without an answer, and checks every 30 s.
  it.each(IS_FULL ? [5, 60, 130] : [1])('for %i s loses no output', async seconds => {
    scene = await Scene.start();
    await using tunnel = await Tunnel.to(scene.bridge.url);
    const pair = await printingPair(scene, { url: tunnel.url, count: 2 * COUNT });
    await pair.stock.until(() => pair.stock.greatest > COUNT / 5, 'for numbers');
    tunnel.freeze();
    await delay(seconds * 1000);
    tunnel.thaw();
    const [stock, ours] = await judge(scene, pair, `tunnel frozen for ${seconds} s`, faultEnds(scene));
    expect(stock).toMatchObject({ ...AT_LEAST_ONCE, replyFaults: 0 });
    expect(ours).toMatchObject(WHOLE);
  });
});

describe('a client that reads slowly', () => {
  it('gets everything in the end, and the other one is not delayed', async () => {
    scene = await Scene.start();
    const count = IS_FULL ? 10_000 : 1_500;
    const pair = await printingPair(scene, { count, perSecond: 2_000, padding: 16_000, toTheEnd: true });
    pair.stock.pause();
    // The other client has everything, replies included, while the slow one does not read.
    await pair.ours.until(() => pair.ours.isAnswered, 'for the end of the cell');
    expect(pair.stock.greatest).toBeLessThan(count - 1);
    pair.stock.resume();
    const [stock, ours] = await judge(scene, pair, 'slow client beside a quick one', faultEnds(scene));
    expect(stock).toMatchObject(WHOLE);
    expect(ours).toMatchObject(WHOLE);
  });
});

describe('two clients', () => {
  it('of which one disconnects and returns both get everything', async () => {
    scene = await Scene.start();
    const pair = await printingPair(scene);
    await share(scene, pair, 0.3);
    await pair.ours.leave();
    await share(scene, pair, 0.7);
    const ends = faultEnds(scene);
    await pair.ours.connect();
    const [stock, ours] = await judge(scene, pair, 'two clients, one leaves and returns', ends);
    expect(stock).toMatchObject(WHOLE);
    expect(ours).toMatchObject(WHOLE);
  });
});

describe('a flood of connections', () => {
  it('during a flood of output loses no output for any client', async () => {
    scene = await Scene.start();
    const cycles = IS_FULL ? 200 : 40;
    const pair = await printingPair(scene, { count: 3 * COUNT });
    for (let cycle = 0; cycle < cycles; cycle++) {
      const client = pair.all[cycle % 2]!;
      await client.leave();
      await client.connect();
    }
    for (const client of pair.all) expect(client.connections).toBeGreaterThan(4);
    const rows = await judge(scene, pair, `${cycles} connections in a flood`, faultEnds(scene));
    expect(rows[0]).toMatchObject({ ...AT_LEAST_ONCE, replyFaults: 0 });
    expect(rows[1]).toMatchObject(WHOLE);
  });
});
