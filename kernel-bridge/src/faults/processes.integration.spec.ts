/** Faults of the bridge's own processes: gateway, keeper, both, another build, the whole machine. */
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { bridgeBuild } from './testing/bridge-build.js';
import { marksOf, numbersIn } from './testing/numbered-output.js';
import { judge, printingPair, share } from './testing/pair.js';
import { Scene } from './testing/scene.js';
import { AT_LEAST_ONCE, faultEnds, IS_FULL, record, WHOLE } from './testing/scoreboard.js';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

let scene: Scene;

afterEach(async () => scene[Symbol.asyncDispose]());

describe('a gateway', () => {
  it.runIf(IS_FULL)('that is killed while the kernel prints loses nothing', async () => {
    scene = await Scene.start();
    const pair = await printingPair(scene);
    await share(scene, pair, 0.3);
    await scene.killGateway();
    await share(scene, pair, 0.6);
    await scene.startGateway();
    const [stock, ours] = await judge(scene, pair, 'gateway SIGKILL', faultEnds(scene));
    expect(stock).toMatchObject({ ...AT_LEAST_ONCE, replyFaults: 0 });
    expect(ours).toMatchObject(WHOLE);
  });

  it('that is replaced by another build loses nothing', async () => {
    const next = await bridgeBuild({ version: '9.9.9' });
    scene = await Scene.start();
    const pair = await printingPair(scene);
    await share(scene, pair, 0.3);
    await scene.stopGateway();
    await share(scene, pair, 0.6);
    await scene.startGateway(next);
    const { body } = await scene.bridge.rest('GET', 'api');
    expect(body).toMatchObject({ version: '9.9.9' });
    const [stock, ours] = await judge(scene, pair, 'gateway upgrade', faultEnds(scene));
    expect(stock).toMatchObject({ ...AT_LEAST_ONCE, replyFaults: 0 });
    expect(ours).toMatchObject(WHOLE);
  });
});

describe('a keeper', () => {
  it('that is killed while the kernel prints loses nothing', async () => {
    scene = await Scene.start();
    const pair = await printingPair(scene);
    await share(scene, pair, 0.4);
    await scene.killKeeper();
    const rows = await judge(scene, pair, 'keeper SIGKILL', faultEnds(scene));
    for (const row of rows) expect(row).toMatchObject(WHOLE);
  });

  it('that is killed together with the gateway loses nothing', async () => {
    scene = await Scene.start();
    const pair = await printingPair(scene);
    await share(scene, pair, 0.3);
    await scene.killGateway();
    await scene.killKeeper();
    await share(scene, pair, 0.6);
    await scene.startGateway();
    const [stock, ours] = await judge(scene, pair, 'gateway and keeper SIGKILL', faultEnds(scene));
    expect(stock).toMatchObject({ ...AT_LEAST_ONCE, replyFaults: 0 });
    expect(ours).toMatchObject(WHOLE);
  });
});

describe('a machine that starts again', () => {
  it('has all output that the kernel sent before the machine went down, for programs and for people', async () => {
    scene = await Scene.start();
    const pair = await printingPair(scene);
    await share(scene, pair, 0.3);
    // One client is disconnected when it happens.
    await pair.ours.leave();
    await share(scene, pair, 0.5);
    await scene.remember();
    const { kernelPid, pid } = scene.keeper!;
    await scene.killGateway();
    await scene.kill(pid);
    await scene.kill(kernelPid);
    const given = scene.printedCount;
    await rm(path.join(scene.stateDir, 'run'), { recursive: true, force: true });
    await scene.startGateway();
    const { numbers } = await scene.journal();
    const reached = Math.max(...numbers) + 1;
    record({
      case: 'host reboot',
      client: 'journal',
      ...marksOf(reached, numbers),
      replyFaults: 0,
      gap: 0,
      reported: [],
      cutOff: given - reached,
      catchUpMs: 0,
      note: 'clients learn that the kernel ended'
    });
    expect(marksOf(reached, numbers)).toMatchObject({ lost: 0, doubled: 0, reordered: 0 });
    const { status, body } = await scene.bridge.rest('GET', `bridge/v1/kernels/${scene.kernelId}/outputs`);
    expect(status).toBe(200);
    expect(marksOf(reached, numbersIn(JSON.stringify(body)))).toMatchObject({ lost: 0, reordered: 0 });
    await pair.stock.until(
      () => pair.stock.fatalReason !== null || pair.stock.states.includes('dead'),
      'for the end'
    );
  });
});
