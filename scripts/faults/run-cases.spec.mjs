// @ts-check
import { existsSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Interrupted } from '../setup/setup-problem.mjs';
import { runToTheLast } from './run-cases.mjs';

/** Started in a separate group with a bare environment, as keepers are. */
const KEEPER = "console.log('ready'); setInterval(() => 0, 1000);";

/** @type {string} */
let folder;
/** @type {string} */
let keeper;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-cases-'));
  keeper = path.join(folder, 'keeper', 'main.js');
  await mkdir(path.dirname(keeper));
  writeFileSync(keeper, KEEPER);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/**
 * A program that starts a keeper, leaves a file, prints the keeper's pid and the path of the file, and then does `next`.
 *
 * @param {string} next
 */
function program(next) {
  return `
    const { spawn } = require('node:child_process');
    const file = require('node:path').join(require('node:os').tmpdir(), 'left');
    require('node:fs').writeFileSync(file, '');
    const options = { detached: true, env: {}, stdio: ['ignore', 'pipe', 'ignore'] };
    const keeper = spawn(process.execPath, [${JSON.stringify(keeper)}], options);
    keeper.stdout.once('data', () => {
      console.log(JSON.stringify({ pid: keeper.pid, file }));
      ${next}
    });
  `;
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('the processes of a run of the fault cases', () => {
  it('are ended when the run is interrupted, though they left the group and know nothing of the run', async () => {
    const controller = new AbortController();
    /** @type {{ pid: number, file: string } | undefined} */
    let reported;
    let wasThere = false;
    const running = runToTheLast(process.execPath, ['-e', program('')], {
      signal: controller.signal,
      onLine: line => {
        reported = JSON.parse(line);
        wasThere = isAlive(reported?.pid ?? 0) && existsSync(reported?.file ?? '');
        controller.abort();
      }
    });
    await expect(running).rejects.toThrow(Interrupted);
    expect(wasThere).toBe(true);
    await vi.waitFor(() => expect(isAlive(reported?.pid ?? 0)).toBe(false), { timeout: 30_000 });
    expect(existsSync(reported?.file ?? '')).toBe(false);
  });

  it('are not waited for when the run ended all of them itself', async () => {
    const ended = await runToTheLast(
      process.execPath,
      ['-e', program("keeper.kill('SIGKILL'); keeper.once('exit', () => process.exit(4));")],
      {}
    );
    expect(ended.exitCode).toBe(4);
    expect(existsSync(JSON.parse(ended.stdout[0] ?? '{}').file)).toBe(false);
  });

  it('are none when the run was interrupted before it began', async () => {
    const running = runToTheLast(process.execPath, ['-e', program('')], { signal: AbortSignal.abort() });
    await expect(running).rejects.toThrow(Interrupted);
  });
});
