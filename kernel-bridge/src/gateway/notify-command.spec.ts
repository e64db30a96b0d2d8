import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { silent } from '../testing/temporary-gateway.js';
import type { Notice } from '../telemetry/notices.js';
import { MAX_NOTICES_PER_WINDOW, NotifyCommand, WINDOW_MS } from './notify-command.js';

const WAIT = { timeout: 20_000 };
const notice = (text: string): Notice => ({
  kind: 'run_failed',
  kernelId: 'k1',
  run: '$(touch run)',
  document: '`touch document`.ipynb',
  text
});

let folder: string;
let now: number;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-notify-'));
  now = 0;
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const commandOf = (command: string, given: { timeoutMs?: number } = {}): NotifyCommand =>
  new NotifyCommand({
    command: `cd "$FOLDER"; ${command}`,
    env: {
      ...process.env,
      FOLDER: folder,
      TPULAB_TOKEN: 'secret',
      JUPYTER_TOKEN: 'secret',
      KG_AUTH_TOKEN: 'secret',
      npm_config__auth: 'secret',
      MY_TOKEN: 'mine'
    },
    now: () => now,
    log: silent(),
    ...given
  });
const read = (name: string): string =>
  existsSync(path.join(folder, name)) ? readFileSync(path.join(folder, name), 'utf8') : '';

it('gives the command the facts as variables, and text from a program is never run as code', async () => {
  await using command = commandOf(
    'printf "%s|" "$TPULAB_NOTICE_KIND" "$TPULAB_NOTICE_TEXT" "$TPULAB_NOTICE_NOTEBOOK" "$TPULAB_NOTICE_RUN" > out; ls > names'
  );
  command.send(notice('Run "; touch text; $(touch text2) \n\u001b[2J\0\u202e x'));
  await vi.waitFor(() => expect(read('names')).not.toBe(''), WAIT);
  expect(read('out')).toBe(
    'run_failed|Run "; touch text; $(touch text2)   x|`touch document`.ipynb|$(touch run)|'
  );
  expect(read('names')).toBe('names\nout\n');
});

it("does not pass this server's keys to the command, and shortens long texts", async () => {
  await using command = commandOf('env > out; echo "${#TPULAB_NOTICE_TEXT}" > size');
  command.send(notice(`Run ${'x'.repeat(1_000_000)}`));
  await vi.waitFor(() => expect(read('size')).not.toBe(''), WAIT);
  expect(read('out')).not.toContain('secret');
  expect(read('out')).toContain('MY_TOKEN=mine');
  expect(Number(read('size'))).toBeLessThanOrEqual(1_500);
});

it('runs ten in ten minutes, one after the other, and later reports how many were omitted', async () => {
  await using command = commandOf('echo "$TPULAB_NOTICE_TEXT" >> out; mkdir alone && rmdir alone');
  for (let at = 0; at < 100; at += 1) command.send(notice(`Run ${at}`));
  await vi.waitFor(() => expect(read('out').split('\n')).toHaveLength(MAX_NOTICES_PER_WINDOW + 1), WAIT);
  now = WINDOW_MS + 1;
  command.send(notice('Run last'));
  await vi.waitFor(() => expect(read('out')).toContain('Run last (90 other notices were left out)'), WAIT);
});

it('ends a command that hangs, with its children, and runs the next one', async () => {
  await using command = commandOf('echo $$ >> out; sleep 1000 & echo $! > child; wait', { timeoutMs: 300 });
  command.send(notice('Run a'));
  await vi.waitFor(() => expect(read('child')).not.toBe(''), WAIT);
  const child = Number(read('child'));
  command.send(notice('Run b'));
  await vi.waitFor(() => expect(read('out').split('\n')).toHaveLength(3), WAIT);
  // Empty while the exit status is not collected yet.
  const program = `/proc/${child}/cmdline`;
  await vi.waitFor(() => expect(existsSync(program) ? readFileSync(program, 'utf8') : '').toBe(''), WAIT);
});

it('is not awaited when it leaves a program behind, fails or cannot be found', async () => {
  await using command = commandOf('sleep 5 & echo "$TPULAB_NOTICE_TEXT" >> out; no-such-program');
  command.send(notice('Run a'));
  command.send(notice('Run b'));
  await vi.waitFor(() => expect(read('out')).toBe('Run a\nRun b\n'), { timeout: 4_000 });
});
