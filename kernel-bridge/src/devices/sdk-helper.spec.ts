import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parseSdkLine } from './sdk-helper.js';
import { SdkHelper } from './sdk-helper.js';

vi.setConfig({ testTimeout: 120_000 });

const LINE = JSON.stringify({
  tensorcore_util: ['12.5', 'NaN'],
  ici_link_health: ['tray1.chip3.ici0.int: 0', 'tray1.chip3.ici1.int: 7', 'tray1.chip2.ici0.int: 10', 'odd'],
  tpu_throttle_score: ['0-3', '1-0', 'x']
});

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
});

afterEach(async () => rm(folder, { recursive: true }));

/** Replaces Python with a shell script; `libtpu-sdk.spec.ts` uses the real Python with the real SDK. */
async function program(lines: string): Promise<string> {
  const file = path.join(folder, 'python');
  await writeFile(file, `#!/bin/sh\necho started >> ${folder}/starts\n${lines}\n`);
  await chmod(file, 0o755);
  return file;
}

function helper(python: string, silenceMs = 60_000): SdkHelper {
  return new SdkHelper({
    python,
    env: process.env,
    log: pino({ level: 'silent' }),
    silenceMs,
    firstPauseMs: 10
  });
}

async function starts(): Promise<number> {
  return (await readFile(path.join(folder, 'starts'), 'utf8').catch(() => '')).split('\n').length - 1;
}

describe("the helper for libtpu's SDK", () => {
  it('turns its lines into figures, and skips invalid ones', () => {
    expect(parseSdkLine(LINE, 1)).toEqual({
      time: 1,
      tensorCorePercent: [12.5, null],
      throttlePercent: [
        { device: 0, percent: 30 },
        { device: 1, percent: 0 }
      ],
      links: [
        { name: 'tray1.chip3.ici0', score: 0, state: 'ok' },
        { name: 'tray1.chip3.ici1', score: 7, state: 'minor' },
        { name: 'tray1.chip2.ici0', score: 10, state: 'unusable' }
      ]
    });
    expect(parseSdkLine('Traceback', 1)).toBeNull();
    expect(parseSdkLine('3', 1)).toBeNull();
  });

  it('returns the newest figures, and ends with its owner', async () => {
    await using one = helper(await program(`echo '${LINE}'\nexec sleep 600`));
    await vi.waitUntil(() => one.newest !== null, { timeout: 30_000 });
    expect(one.newest?.tensorCorePercent).toEqual([12.5, null]);
  });

  it('returns nothing older than half a minute, even if the clock was set back', async () => {
    await using one = helper(await program(`echo '${LINE}'\nexec sleep 600`));
    await vi.waitUntil(() => one.newest !== null, { timeout: 30_000 });
    const [wall, monotonic] = [Date.now(), performance.now()];
    const clocks = [
      vi.spyOn(Date, 'now').mockReturnValue(wall - 3_600_000),
      vi.spyOn(performance, 'now').mockReturnValue(monotonic + 31_000)
    ];
    expect(one.newest).toBeNull();
    for (const clock of clocks) clock.mockRestore();
  });

  it.each([
    ['crashes', 'kill -SEGV $$'],
    ['is silent', 'exec sleep 600']
  ])('restarts a helper that %s', async (_, lines) => {
    await using one = helper(await program(lines), 300);
    await vi.waitUntil(async () => (await starts()) >= 3, { timeout: 60_000 });
    expect(one.newest).toBeNull();
  });

  it('tolerates a missing Python', async () => {
    await using one = helper(path.join(folder, 'none'));
    expect(one.newest).toBeNull();
  });
});
