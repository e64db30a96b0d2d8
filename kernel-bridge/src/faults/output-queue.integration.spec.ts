/** A keeper that does not read while its kernel prints: the cell waits, or its user is notified, as set with `serve --config`. */
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { JournalReader, type JournalRecord } from '../journal/index.js';
import { decodeV1, PART } from '../jupyter/index.js';
import type { NumberedClient } from './testing/numbered-client.js';
import { Scene } from './testing/scene.js';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

const STANDSTILL_MS = 3_000;
const UNHURRIED = { perSecond: 1_000_000 };

let folder: string;
let scene: Scene | undefined;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpq-'));
});

afterEach(async () => {
  await scene?.[Symbol.asyncDispose]();
  scene = undefined;
  await rm(folder, { recursive: true, force: true });
});

async function sceneWith(bridge: object): Promise<Scene> {
  const config = path.join(folder, 'config.json');
  await writeFile(config, JSON.stringify({ Bridge: bridge }));
  scene = await Scene.start({ args: ['--config', config] });
  return scene;
}

/** Runs a cell that prints all but its first number while its keeper is stopped. */
async function printWithoutReader(on: Scene, count: number, padding: number): Promise<NumberedClient> {
  const client = await on.client('stock');
  // The keeper has confirmed a message, so it is connected to the kernel's ring.
  await on.until(() => existsSync(path.join(on.kernelDir, 'checkpoint.json')), 'a confirmation');
  const gate = path.join(on.folder, 'gate');
  await on.print(client, { count, padding, gate, ...UNHURRIED });
  process.kill(on.keeper!.pid, 'SIGSTOP');
  await writeFile(gate, '');
  return client;
}

async function expectAllReceived(on: Scene, client: NumberedClient, count: number): Promise<void> {
  process.kill(on.keeper!.pid, 'SIGCONT');
  await on.until(() => client.shown.length >= count, 'all outputs');
  expect(client.shown).toEqual(Array.from({ length: count }, (_, number) => number));
}

/** Text of the streams in the journal. */
async function texts(on: Scene, stream: string): Promise<string> {
  let found = '';
  for await (const { payload } of new JournalReader(on.journalDir).read(1) as AsyncIterable<JournalRecord>) {
    try {
      const { name, text } = JSON.parse(decodeV1(payload).parts[PART.content]!.toString()) as Record<
        string,
        string
      >;
      found += name === stream ? (text ?? '') : '';
    } catch {
      // The bridge's own records are not messages.
    }
  }
  return found;
}

it(
  'a cell waits for its reader when `Bridge.iopub_queue` requires it, and nothing is lost',
  { tags: ['long'] },
  async () => {
    // More than the kernel's queue and the socket can store, so the cell stops.
    const count = 25_000;
    const on = await sceneWith({ iopub_queue: 'block' });
    const client = await printWithoutReader(on, count, 0);
    let since = performance.now();
    let stood = -1;
    await on.until(() => {
      if (on.printedCount !== stood) [stood, since] = [on.printedCount, performance.now()];
      return performance.now() - since > STANDSTILL_MS;
    }, 'the cell to wait');
    expect(stood).toBeLessThan(count);
    await expectAllReceived(on, client, count);
  }
);

it('a cell continues by default, and its user is notified when output waits, and when it no longer does', async () => {
  const count = 2_000;
  const on = await sceneWith({ iopub_alarm_bytes: '1 MiB' });
  const client = await printWithoutReader(on, count, 2_000);
  await on.until(() => on.printedCount === count, 'the end of the cell');
  const log = (): string => readFileSync(path.join(on.kernelDir, 'kernel.log'), 'utf8');
  await on.until(() => /2\.\d MiB of this kernel's output are waiting in memory/.test(log()), 'the alarm');
  await expectAllReceived(on, client, count);
  await on.until(
    async () => (await texts(on, 'stderr')).includes('no longer accumulates'),
    'the end of the alarm'
  );
  expect(await texts(on, 'stderr')).toMatch(/1\.\d MiB of this kernel's output are waiting in memory/);
});
