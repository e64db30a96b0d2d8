/** Child processes of a kernel, and the end of a login session: a child costs a keeper at most 2 s (`DRAIN_MS`), SIGHUP nothing. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { processStart } from '@tpulab/platform/process-identity.js';
import { GatewayView, KeeperFixture } from './testing/keeper-fixture.js';

const PYTHON = fileURLToPath(new URL('../../../.tpulab/envs/jax/bin/python', import.meta.url));
const isInstalled = existsSync(PYTHON);
if (!isInstalled) {
  process.stderr.write(`Specs with ipykernel are skipped: ${PYTHON} does not exist; "npm start" makes it.\n`);
}

/**
 * Forks a child that leaves the kernel's group, so that only the test ends it, and keeps every descriptor of the kernel.
 * The kernel prints the child's pid once the child has left: the pipe then ends.
 */
const FORK = [
  'import os, time',
  'left, leaving = os.pipe()',
  'child = os.fork()',
  'if child == 0:',
  '    os.setsid(); os.close(leaving); time.sleep(600); os._exit(0)',
  'os.close(leaving); os.read(left, 1)',
  'print(f"child {child};", flush=True)'
].join('\n');

describe.skipIf(!isInstalled)('a keeper with ipykernel', () => {
  let view: GatewayView;
  let keeper: KeeperFixture;
  let child: number | undefined;

  beforeEach(async () => {
    view = new GatewayView();
    child = undefined;
    keeper = await KeeperFixture.create({
      argv: [PYTHON, '-m', 'tpulab.launcher', '-f', '{connection_file}'],
      bestEffort: false,
      shutdownWaitMs: 10_000
    });
  });

  afterEach(async ({ task }) => {
    if (task.result?.state === 'fail') {
      process.stderr.write(await keeper.logs());
    }
    if (child !== undefined) {
      process.kill(child, 'SIGKILL');
    }
    await keeper[Symbol.asyncDispose]();
  });

  /** Resolves when a child of the kernel runs with all open files of the kernel. */
  async function forked(): Promise<void> {
    await view.until('there is a child', () => /child \d+;/.test(view.text));
    child = Number(/child (\d+);/.exec(view.text)![1]);
  }

  it.each([
    ['os._exit(3)', 'exited with code 3'],
    ['os.kill(os.getpid(), 9)', 'killed by SIGKILL']
  ])(
    'notices the end by %s of a kernel whose child has its sockets, and starts another',
    async (end, reason) => {
      const client = await keeper.ready(view);
      const { kernelPid } = client.snapshot;
      await view.untilDone(keeper.execute(client, FORK));
      await forked();
      keeper.execute(client, end);
      await view.until('its end is told', () => view.states.some(state => state.reason === reason));
      await view.untilState('idle');
      expect(client.snapshot.kernelPid).not.toBe(kernelPid);
      const request = keeper.execute(client, 'print("another")');
      await view.untilDone(request);
      expect(view.textOf(request)).toBe('another\n');
      expect(await processStart(child!)).not.toBeNull();
    }
  );

  it('restarts a kernel whose child has its sockets, and only the new process uses them', async () => {
    const client = await keeper.ready(view);
    await view.untilDone(keeper.execute(client, FORK));
    await forked();
    await client.restart();
    const request = keeper.execute(client, 'print("".join(str(n) + ";" for n in range(1000)))');
    await view.untilDone(request);
    expect(view.textOf(request)).toBe(`${Array.from({ length: 1000 }, (_, n) => `${n};`).join('')}\n`);
    expect(await processStart(child!)).not.toBeNull();
  });

  it('keeps its kernel when its terminal closes (SIGHUP)', async () => {
    const client = await keeper.ready(view);
    const { keeperPid, kernelPid } = client.snapshot;
    process.kill(keeperPid, 'SIGHUP');
    const request = keeper.execute(client, 'print("still here")');
    await view.untilDone(request);
    expect(view.textOf(request)).toBe('still here\n');
    await expect.poll(() => keeper.logs(), { timeout: 60_000 }).toContain('SIGHUP ignored');
    expect(client.snapshot).toMatchObject({ keeperPid, kernelPid });
  });
});
