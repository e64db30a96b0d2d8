/** The rows of the fault matrix: the result of each client in each case. */
import { appendFileSync, writeFileSync } from 'node:fs';
import type { NumberedClient } from './numbered-client.js';
import { type Marks, marksOf } from './numbered-output.js';
import type { Scene } from './scene.js';

export interface Score extends Marks {
  readonly case: string;
  readonly client: string;
  /** Faults in the replies to this client's requests, of all kinds together. */
  readonly replyFaults: number;
  /** Messages that gap records of the journal count as missing; null when the count is unknown. */
  readonly gap: number | null;
  /** Gap reports that the client received. */
  readonly reported: readonly string[];
  /** Numbers that were lost with a killed kernel before any other process received them. */
  readonly cutOff: number;
  /** Time from the end of the fault until the client had everything printed up to then. */
  readonly catchUpMs: number | null;
  readonly note: string;
}

/** Set by `npm run test:faults`: every row is appended to this file as a line of JSON. */
const REPORT = process.env['TPULAB_FAULTS_REPORT'];

/** `npm run test:faults` runs the cases in full; `npm test` the short ones, with fewer numbers. */
export const IS_FULL = process.env['TPULAB_FAULTS'] === 'full';

export interface Settling {
  /** The end of the fault, as `performance.now()`. */
  readonly since: number;
  /** Numbers printed by then. */
  readonly by: number;
}

/** Call this when a fault ends: the cell may then end too. */
export function faultEnds(scene: Scene): Settling {
  writeFileSync(scene.faultOver, '');
  return { since: performance.now(), by: scene.printedCount };
}

/** Waits until the client has caught up; null on timeout. */
export async function catchUp(
  client: NumberedClient,
  { since, by }: Settling,
  deadlineMs = 120_000
): Promise<number | null> {
  const ended = (): boolean => client.greatest >= by - 1 || client.fatalReason !== null;
  await client.within(ended, deadlineMs);
  return client.greatest >= by - 1 ? Math.round(performance.now() - since) : null;
}

interface Scoring {
  readonly name: string;
  readonly scene: Scene;
  readonly client: NumberedClient;
  readonly expected: number;
  readonly catchUpMs: number | null;
  readonly note?: string;
  /** The kernel was killed while it printed: output missing at the very end was lost with the kernel. */
  readonly isCutOff?: boolean;
}

export async function score({
  name,
  scene,
  client,
  expected,
  catchUpMs,
  note = '',
  isCutOff = false
}: Scoring): Promise<Score> {
  const { gaps } = await scene.journal();
  const reached = isCutOff ? client.greatest + 1 : expected;
  const replies = client.replyMarks();
  const row: Score = {
    case: name,
    client: client.kind,
    ...marksOf(reached, client.shown),
    // A process that was killed answers nothing.
    replyFaults: isCutOff ? 0 : replies.lost + replies.doubled + replies.reordered,
    gap: gaps.some(({ count }) => count === null)
      ? null
      : gaps.reduce((sum, { count }) => sum + (count ?? 0), 0),
    reported: client.gaps,
    cutOff: isCutOff ? expected - reached : 0,
    catchUpMs,
    note: [note, client.fatalReason].filter(Boolean).join('; ')
  };
  record(row);
  return row;
}

export function record(row: Score): void {
  if (REPORT !== undefined) appendFileSync(REPORT, `${JSON.stringify(row)}\n`);
}

/** The target of every case: nothing lost, duplicated or reordered, and exactly one reply per request. */
export const WHOLE = { lost: 0, doubled: 0, reordered: 0, replyFaults: 0 } as const;

/**
 * The guarantee for a stock client whose connection ends without a close: it cannot report its position, so the last
 * moments before the loss may arrive twice.
 */
export const AT_LEAST_ONCE = { lost: 0, reordered: 0 } as const;
