import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { isSameProcess, processStart } from './process-identity.js';

describe('the identity of a process', () => {
  it('is the same as long as it runs, and gone when it has ended', async () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'], { stdio: 'ignore' });
    await once(child, 'spawn');
    const start = await processStart(child.pid!);
    expect(start).not.toBeNull();
    expect(await isSameProcess(child.pid!, start)).toBe(true);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await isSameProcess(child.pid!, start)).toBe(false);
    expect(await processStart(child.pid!)).toBeNull();
  });

  // In a container nobody may reap it: whoever waits for its end would wait for ever.
  it.skipIf(process.platform !== 'linux')('counts as ended when nobody has reaped it', async () => {
    // The shell becomes a program that never asks for the end of its child.
    const parent = spawn('sh', ['-c', 'sleep 600 & echo $!; exec sleep 600'], {
      stdio: ['ignore', 'pipe', 'ignore']
    });
    try {
      const [line] = (await once(parent.stdout, 'data')) as [Buffer];
      const pid = Number(line.toString());
      const start = await processStart(pid);
      expect(await isSameProcess(pid, start)).toBe(true);
      process.kill(pid, 'SIGKILL');
      await vi.waitFor(async () => expect(await isSameProcess(pid, start)).toBe(false), 30_000);
      // Its pid is still taken.
      expect(existsSync(`/proc/${pid}`)).toBe(true);
    } finally {
      parent.kill('SIGKILL');
    }
  });

  it('is not that of another process with the same pid', async () => {
    expect(await isSameProcess(process.pid, 'another start')).toBe(false);
    expect(await isSameProcess(process.pid, null)).toBe(false);
  });
});
