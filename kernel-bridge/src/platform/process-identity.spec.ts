import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
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

  it('is not that of another process with the same pid', async () => {
    expect(await isSameProcess(process.pid, 'another start')).toBe(false);
    expect(await isSameProcess(process.pid, null)).toBe(false);
  });
});
