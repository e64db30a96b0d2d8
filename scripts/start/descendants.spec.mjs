// @ts-check
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { afterEach, expect, it } from 'vitest';
import { allEnded, endMarked, MARK, marked } from './descendants.mjs';

/** Ignores SIGTERM, as a stuck kernel does. */
const STUBBORN = "process.on('SIGTERM', () => 0); console.log('ready'); setInterval(() => 0, 1000);";
/** Starts STUBBORN in a session of its own and ends, so that it is nobody's child. */
const STARTS_STUBBORN = `
const child = require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(STUBBORN)}], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
child.stdout.once('data', () => process.exit());
`;

/** @type {string} */
let mark;
afterEach(async () => {
  await endMarked(mark, 100);
});

it('finds and ends a process that left the tree and ignores SIGTERM', async () => {
  mark = randomUUID();
  const env = { ...process.env, [MARK]: mark };
  const child = spawn(process.execPath, ['-e', STARTS_STUBBORN], { env });
  await once(child, 'exit');
  expect(await marked(mark)).toHaveLength(1);
  expect(await endMarked(mark, 300)).toBe(1);
  expect(await allEnded(mark, 0)).toBe(true);
});

it('finds nothing of a mark that nobody has', async () => {
  mark = randomUUID();
  expect(await endMarked(mark, 100)).toBe(0);
});
