import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { pino } from 'pino';
import { guardProcess, isCrashLoop, noteEnd } from './serve-gateway.js';

let folder: string;
beforeEach(() => (folder = mkdtempSync(path.join(tmpdir(), 'tpl-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('three fatal ends in a minute are a crash loop, and an old one does not count', () => {
  const now = Date.now();
  for (const at of [now - 50_000, now - 20_000]) noteEnd(folder, at);
  expect(isCrashLoop(folder, now)).toBe(false);
  noteEnd(folder, now);
  expect(isCrashLoop(folder, now)).toBe(true);
  expect(isCrashLoop(folder, now + 11 * 60_000)).toBe(false);
  noteEnd(folder, now + 90_000);
  expect(isCrashLoop(folder, now + 90_000)).toBe(false);
});

it('one fault is logged with its stack and ends nothing; many in a row end the gateway, which records its end', () => {
  const lines: string[] = [];
  let ends = 0;
  const log = pino({}, { write: line => lines.push(line) });
  // The test runner has its own listeners.
  const before = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  try {
    using _ = guardProcess(folder, log, () => {
      ends++;
    });
    const fail = (): void => void process.emit('uncaughtException', new Error('thrown in a timer'));
    fail();
    expect(ends).toBe(0);
    expect(lines.join('')).toMatch(/thrown in a timer.*fatal-ends\.spec\.ts/);
    for (let count = 0; count < 9; count++) fail();
    expect(ends).toBe(1);
  } finally {
    for (const listener of before) process.on('uncaughtException', listener);
  }
  for (let count = 0; count < 2; count++) noteEnd(folder);
  expect(isCrashLoop(folder)).toBe(true);
});
