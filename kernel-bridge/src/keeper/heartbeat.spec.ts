/** Against a REP of libzmq, which is what a kernel's heartbeat socket is. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Reply } from 'zeromq';
import { Heartbeat } from './heartbeat.js';

vi.setConfig({ testTimeout: 60_000 });

let folder: string;
let address: string;
let kernel: Reply;
let heartbeat: Heartbeat;
let changes: boolean[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'beat-'));
  address = `ipc://${join(folder, 'socket')}`;
  kernel = new Reply({ linger: 0 });
  await kernel.bind(address);
  changes = [];
});

function beat(answerMs: number, periodMs = 10): void {
  heartbeat = new Heartbeat(address, alive => changes.push(alive), { periodMs, answerMs });
}

afterEach(async () => {
  await heartbeat.close();
  kernel.close();
  rmSync(folder, { recursive: true });
});

async function answer(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await kernel.send(await kernel.receive());
}

const changed = (times: number): Promise<boolean> =>
  vi.waitUntil(() => changes.length >= times, { timeout: 30_000, interval: 20 });

it('a kernel that answers is told of once', async () => {
  beat(60_000);
  await answer(5);
  expect(changes).toEqual([true]);
});

it('a kernel that stops answering is noticed, and so is one that answers again', async () => {
  beat(1_000);
  await answer(1);
  await changed(1);
  // From here on nothing is answered, as by a process that was stopped.
  await changed(2);
  await answer(1);
  await changed(3);
  expect(changes.slice(0, 3)).toEqual([true, false, true]);
});

it('an answer that comes late, when nobody waits for it any more, counts at once', async () => {
  beat(1, 60_000);
  await kernel.receive();
  await delay(50);
  await kernel.send('ping');
  await changed(1);
  expect(changes).toEqual([true]);
});

it('a kernel that has never answered has not stopped, and nothing is said of it after the end', async () => {
  beat(60_000);
  await kernel.receive();
  await heartbeat.close();
  expect(changes).toEqual([]);
});
