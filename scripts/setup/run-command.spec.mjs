// @ts-check
import { describe, expect, it, vi } from 'vitest';
import { run, runOrExplain } from './run-command.mjs';
import { Interrupted } from './setup-problem.mjs';

const node = process.execPath;
/** Starts a child process and waits for ever; prints the child's pid. */
const WITH_CHILD = `
const child = require('node:child_process').spawn(process.execPath, ['-e', 'setInterval(() => 0, 1000)']);
console.log(child.pid);
setInterval(() => 0, 1000);
`;

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('a program', () => {
  it('gives its lines and its exit code', async () => {
    const ended = await run(node, ['-e', 'console.log("a\\nb"); console.error("c"); process.exitCode = 3']);
    expect(ended).toMatchObject({ exitCode: 3, stdout: ['a', 'b'], stderr: ['c'], timedOut: false });
  });

  it('is ended with its children when the work is aborted', async () => {
    const controller = new AbortController();
    let pid = 0;
    const running = run(node, ['-e', WITH_CHILD], {
      signal: controller.signal,
      onLine: line => {
        pid = Number(line);
        controller.abort();
      }
    });
    await expect(running).rejects.toThrow(Interrupted);
    await vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 30_000 });
  });

  it('is ended when it takes too long, with a message', async () => {
    const running = runOrExplain('waiting', node, ['-e', 'setInterval(() => 0, 1000)'], { timeoutMs: 200 });
    await expect(running).rejects.toMatchObject({ code: 'timed-out' });
  });

  it('that does not exist is a problem with a sentence', async () => {
    await expect(runOrExplain('trying', '/nowhere/program', [])).rejects.toMatchObject({
      code: 'failed',
      message: expect.stringContaining('/nowhere/program')
    });
  });
});
