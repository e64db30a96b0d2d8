/** Both kinds of client on one kernel: nearly every case starts with them and is assessed by their output. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { ClientKind, NumberedClient } from './numbered-client.js';
import { type NumberedOptions, waitingFor } from './numbered-output.js';
import type { Scene } from './scene.js';
import { catchUp, IS_FULL, score, type Score, type Settling } from './scoreboard.js';

const KINDS: readonly ClientKind[] = ['stock', 'ours'];
const REPLIES = 5;
const ANSWERED_MS = 120_000;
/** The cell waits after this share of its numbers until the fault is over. */
const PAUSE_AT = 0.95;

/** How much is printed during a fault. */
export const COUNT = IS_FULL ? 10_000 : 2_000;
export const PER_SECOND = IS_FULL ? 1_000 : 2_000;

export interface Pair {
  readonly stock: NumberedClient;
  readonly ours: NumberedClient;
  readonly all: readonly NumberedClient[];
  readonly count: number;
  /** The request that prints. */
  readonly printing: string;
}

/**
 * The stock client runs the cell, and both clients send requests behind it. No fault begins before the kernel has these
 * requests: a request that a killed process had not forwarded is never repeated. The cell does not end before the fault is
 * over (`faultEnds`), however slow the machine: a stock client that is cut off just after its replies may get them twice.
 */
export async function printingPair(
  scene: Scene,
  options: Partial<NumberedOptions> & { url?: string; toTheEnd?: boolean } = {}
): Promise<Pair> {
  const { url, toTheEnd = false, at = [], count = COUNT, ...numbered } = options;
  const all: NumberedClient[] = [];
  for (const kind of KINDS) all.push(await scene.client(kind, url));
  const [stock, ours] = all as [NumberedClient, NumberedClient];
  const gate = path.join(scene.folder, 'asked');
  const steps = [at, toTheEnd ? [] : waitingFor(scene.faultOver, Math.floor(PAUSE_AT * count))].flat();
  const printing = await scene.print(stock, { count, perSecond: PER_SECOND, gate, at: steps, ...numbered });
  for (const client of all) for (let number = 0; number < REPLIES; number++) client.execute(`${number}`);
  for (const client of all) await client.delivered();
  await writeFile(gate, '');
  return { stock, ours, all, count, printing };
}

/** Resolves when the kernel has printed this share of its numbers. */
export function share(scene: Scene, pair: Pair, part: number): Promise<void> {
  return scene.until(
    () => scene.printedCount >= part * pair.count,
    `number ${Math.floor(part * pair.count)}`
  );
}

/** Waits until both clients have everything, and returns their scores: `[stock, ours]`. */
export async function judge(scene: Scene, pair: Pair, name: string, ends: Settling): Promise<[Score, Score]> {
  return Promise.all(
    pair.all.map(async client => {
      const catchUpMs = await catchUp(client, ends);
      if (catchUpMs !== null) {
        await client.within(() => client.isAnswered || client.fatalReason !== null, ANSWERED_MS);
      }
      return score({ name, scene, client, expected: pair.count, catchUpMs });
    })
  ) as Promise<[Score, Score]>;
}

/** For a kernel that was killed while it printed: both clients get the output in the journal, and the journal has no hole. */
export async function catchUpAfterKill(scene: Scene, pair: Pair, name: string): Promise<Score[]> {
  const expected = scene.printedCount;
  const since = performance.now();
  const { numbers } = await scene.journal();
  const rows: Score[] = [];
  for (const client of pair.all) {
    const catchUpMs = await catchUp(client, { since, by: numbers.length });
    rows.push(await score({ name, scene, client, expected, catchUpMs, isCutOff: true }));
  }
  return rows;
}
