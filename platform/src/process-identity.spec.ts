import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { isSameProcess, processStart } from './process-identity.js';

describe('the identity of a process', () => {
  it('is the same as long as it runs, and lost when it has ended', async () => {
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

  // In a container there may be no process that reaps it: a wait for its end would never return.
  it.skipIf(process.platform !== 'linux')('counts as ended when nobody has reaped it', async () => {
    // The shell becomes a program that never waits for its child.
    const parent = spawn('sh', ['-c', 'sleep 600 & echo $!; exec sleep 600'], {
      stdio: ['ignore', 'pipe', 'ignore']
    });
    try {
      const [line] = (await once(parent.stdout, 'data')) as [Buffer];
      const pid = Number(line.toString());
      const start = await processStart(pid);
      expect(await isSameProcess(pid, start)).toBe(true);
      // Until then the parent is the shell, which reaps.
      await vi.waitFor(
        () => expect(readFileSync(`/proc/${parent.pid}/comm`, 'utf8')).toBe('sleep\n'),
        30_000
      );
      process.kill(pid, 'SIGKILL');
      await vi.waitFor(async () => expect(await isSameProcess(pid, start)).toBe(false), 30_000);
      // Its pid is still in use.
      expect(existsSync(`/proc/${pid}`)).toBe(true);
    } finally {
      parent.kill('SIGKILL');
    }
  });

  it('differs from another process with the same pid', async () => {
    expect(await isSameProcess(process.pid, 'another start')).toBe(false);
    expect(await isSameProcess(process.pid, null)).toBe(false);
  });
});
