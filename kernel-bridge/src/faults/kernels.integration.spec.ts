/** Faults of the kernel: killed, exiting on its own, ignoring SIGTERM, forked, using stdin without a client; and of its clock. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { bridgeBuild } from './testing/bridge-build.js';
import { marksOf, waitingFor } from './testing/numbered-output.js';
import { catchUpAfterKill, COUNT, judge, type Pair, printingPair, share } from './testing/pair.js';
import { Scene } from './testing/scene.js';
import { AT_LEAST_ONCE, faultEnds, IS_FULL, WHOLE } from './testing/scoreboard.js';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

let scene: Scene;

afterEach(async () => scene[Symbol.asyncDispose]());

/**
 * Expects that the kernel crashed while it printed: clients are notified, all output that it sent is stored, and a new
 * process answers.
 */
async function expectRestart(name: string, pair: Pair): Promise<void> {
  for (const client of pair.all)
    await client.until(() => client.states.includes('restarting'), 'for the restart');
  await expectPrefixAndNewProcess(name, pair);
}

async function expectPrefixAndNewProcess(name: string, pair: Pair): Promise<void> {
  for (const row of await catchUpAfterKill(scene, pair, name)) {
    expect(row).toMatchObject({ lost: 0, doubled: 0, reordered: 0 });
  }
  for (const client of pair.all) {
    const request = client.execute('"still here"');
    await client.until(() => client.replyStatus.has(request), 'for an answer of the new process');
  }
}

describe('a kernel', () => {
  it('that is killed while it prints loses no output that it sent', async () => {
    scene = await Scene.start();
    const pair = await printingPair(scene);
    await share(scene, pair, 0.5);
    await scene.killKernel();
    await expectRestart('kernel SIGKILL', pair);
  });

  it('that ends by os._exit loses no output that it sent', async () => {
    scene = await Scene.start();
    const pair = await printingPair(scene, { at: { number: 1_000, code: 'os._exit(7)' } });
    await expectRestart('kernel os._exit', pair);
  });

  it('that ignores SIGTERM and SIGINT is restarted anyway', async () => {
    scene = await Scene.start();
    const deaf =
      'import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)';
    const pair = await printingPair(scene, { count: 60_000, at: { number: 20, code: deaf } });
    await scene.until(() => scene.printedCount > 500, 'numbers');
    const before = scene.keeper?.kernelPid;
    const answer = await scene.bridge.rest('POST', `api/kernels/${scene.kernelId}/restart`);
    expect(answer.status).toBe(200);
    await scene.until(() => scene.keeper?.kernelPid !== before, 'another process');
    await expectPrefixAndNewProcess('kernel deaf to SIGTERM, restarted', pair);
  });

  it('that has forked continues to print, and its end is noticed although the child has its sockets open', async () => {
    scene = await Scene.start();
    const childFile = path.join(scene.folder, 'child');
    // The child leaves the group, so that only its own exit ends it.
    const fork = [
      'child = os.fork()',
      'if child == 0:',
      '    os.setsid(); time.sleep(300); os._exit(0)',
      `open(${JSON.stringify(childFile)}, "w").write(str(child))`
    ];
    const pair = await printingPair(scene, { at: { number: 500, code: fork.join('\n            ') } });
    await scene.rememberFrom(childFile);
    const rows = await judge(scene, pair, 'kernel forked', faultEnds(scene));
    for (const row of rows) expect(row).toMatchObject(WHOLE);
    await scene.killKernel();
    for (const client of pair.all)
      await client.until(() => client.states.includes('restarting'), 'for the restart');
    const request = pair.stock.execute('1');
    await pair.stock.until(() => pair.stock.replyStatus.has(request), 'for an answer of the new process');
  });
});

describe('a question of the kernel', () => {
  it.each(['stock', 'ours'] as const)(
    'that is open while the gateway is killed is answered by a client (%s) that returns',
    async kind => {
      scene = await Scene.start();
      const client = await scene.client(kind);
      client.execute('print("#" + input("first?") + ";"); print("#" + input("second?") + ";")', {
        allow_stdin: true
      });
      await client.until(() => client.questions.includes('first?'), 'for the question');
      await scene.killGateway();
      await scene.startGateway();
      await client.until(() => client.isOpen, 'to be back');
      client.answer('0');
      await client.until(() => client.questions.includes('second?'), 'for the second question');
      client.abort();
      await client.until(() => client.isOpen, 'to be back');
      client.answer('1');
      // The reply alone may arrive before the last output, so the idle status is awaited too.
      await client.until(() => client.isAnswered, 'for the reply and the idle');
      const marks = marksOf(2, client.shown);
      expect(marks).toMatchObject(kind === 'ours' ? { lost: 0, doubled: 0, reordered: 0 } : AT_LEAST_ONCE);
    }
  );
});

describe('a clock that is set', () => {
  it.each(IS_FULL ? [86_400_000, -172_800_000] : [-172_800_000])(
    'by %i ms while the kernel prints changes nothing',
    async shiftMs => {
      scene = await Scene.start({ program: await bridgeBuild({ shiftedClock: true }) });
      const gate = path.join(scene.folder, 'set');
      const pair = await printingPair(scene, { at: waitingFor(gate, COUNT * 0.3) });
      await share(scene, pair, 0.3);
      const clock = path.join(scene.stateDir, 'clock');
      await writeFile(clock, String(shiftMs));
      for (const pid of [scene.bridge.pid, scene.keeper!.pid]) process.kill(pid, 'SIGUSR2');
      await writeFile(gate, '');
      await share(scene, pair, 0.6);
      for (const client of pair.all) {
        await client.leave();
        await client.connect();
      }
      const rows = await judge(
        scene,
        pair,
        `clock set by ${shiftMs > 0 ? '+1 day' : '-2 days'}`,
        faultEnds(scene)
      );
      expect(rows[1]).toMatchObject(WHOLE);
      expect(rows[0]).toMatchObject({ lost: 0, reordered: 0, replyFaults: 0 });
      // The cell may have ended before the keeper noticed the new clock; this one begins after that.
      const request = pair.ours.execute('1');
      await pair.ours.until(() => pair.ours.replyStatus.has(request), 'for the reply');
      const { lastActivityMs } = await scene.activity();
      // The new clock counts from then on.
      expect(Math.abs(lastActivityMs - (Date.now() + shiftMs))).toBeLessThan(3_600_000);
    }
  );
});
