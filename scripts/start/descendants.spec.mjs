// @ts-check
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Descendants, MARK } from './descendants.mjs';
import { listProcesses } from './process-list.mjs';

/** Ignores SIGTERM, as a stuck kernel does. */
const STUBBORN = "process.on('SIGTERM', () => 0); console.log('ready'); setInterval(() => 0, 1000);";

/** @type {string} */
let folder;
/** @type {string} */
let mark;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-descendants-'));
  mark = randomUUID();
});
afterEach(async () => {
  await new Descendants(mark).end(100);
  await rm(folder, { recursive: true, force: true });
});

/**
 * Runs a script with the mark; it has ended when this resolves.
 *
 * @param {string} script
 */
async function runMarked(script) {
  const child = spawn(process.execPath, ['-e', script], { env: { ...process.env, [MARK]: mark } });
  await once(child, 'exit');
}

/**
 * A script that starts a program in a separate session and ends when that is ready.
 *
 * @param {readonly string[]} args
 * @param {string} env source text of the program's environment
 */
function leaving(args, env) {
  return `
    const { spawn } = require('node:child_process');
    const options = { detached: true, env: ${env}, stdio: ['ignore', 'pipe', 'ignore'] };
    spawn(process.execPath, ${JSON.stringify(args)}, options).stdout.once('data', () => process.exit());
  `;
}

describe('the processes of a start', () => {
  it('are found and ended, though one left the process tree and ignores SIGTERM', async () => {
    await runMarked(leaving(['-e', STUBBORN], 'process.env'));
    const descendants = new Descendants(mark);
    expect(await descendants.refresh()).toHaveLength(1);
    expect(await descendants.end(300)).toBe(1);
    expect(await descendants.refresh()).toEqual([]);
  });

  it('include a keeper without the mark, by its kernel, even after the kernel has ended', async () => {
    const keeper = path.join(folder, 'keeper', 'main.js');
    await mkdir(path.dirname(keeper));
    const options = `{ env: { ${MARK}: process.argv[2] }, stdio: ['ignore', 'pipe', 'ignore'] }`;
    await writeFile(
      keeper,
      `const kernel = require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(STUBBORN)}], ${options});
      kernel.stdout.once('data', () => console.log(kernel.pid));
      process.on('SIGTERM', () => 0);
      setInterval(() => 0, 1000);`
    );
    await runMarked(leaving([keeper, mark], '{}'));
    const descendants = new Descendants(mark);
    const found = await descendants.refresh();
    expect(found).toHaveLength(2);
    // Known by its mark: the greater pid need not be the younger process's.
    const kernel = (await listProcesses(`${MARK}=${mark}`)).find(one => one.marked);
    if (!kernel) throw new Error('There is no kernel with the mark.');
    process.kill(kernel.pid, 'SIGKILL');
    const left = found.filter(pid => pid !== kernel.pid);
    expect(left).toHaveLength(1);
    await expect.poll(() => descendants.refresh(), { timeout: 30_000 }).toEqual(left);
    await descendants.end(300);
    expect(await descendants.refresh()).toEqual([]);
  });

  it('are none for a mark without processes', async () => {
    expect(await new Descendants(mark).end(100)).toBe(0);
  });
});
