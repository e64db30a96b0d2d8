/**
 * A run on a slice that has lost a host is started again: on new processes of all hosts, from its first cell. Training that saves
 * checkpoints continues from its last one.
 */
import { mkdir, readFile, realpath } from 'node:fs/promises';
import path, { dirname } from 'node:path';
import type { CellExecution } from '@tpulab/protocol';
import { SLICE_KERNELS } from '../../devices/host-only.js';
import { pause } from '../../platform/waiting.js';
import { CommandError } from '../output.js';
import { GatewayRefusal } from '../running-gateway.js';
import { type BridgeCalls, sessionPath } from './bridge-calls.js';
import { createHash } from 'node:crypto';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { writeAtomically } from '../../platform/write-atomically.js';

/** What following a run takes. */
export interface Follow {
  readonly calls: BridgeCalls;
  readonly file: RunFile;
  readonly record: RunRecord;
  readonly signal: AbortSignal;
  /** A line for people. */
  readonly note: (text: string) => void;
  /** Between two starts while a host of a slice is away. Default 30 s. */
  readonly awayPollMs?: number;
  /** Somebody has restarted the kernel meanwhile. */
  readonly isRestarted?: boolean;
}

/** Unless told otherwise. */
export const RESTARTS = 3;
/** Between two starts while a host is away. */
const AWAY_POLL_MS = 30_000;
/** A preempted machine may be hours away; nobody waits for one that does not come back. */
const AWAY_MS = 24 * 60 * 60_000;

/** Of the kernel of a slice: a host was lost; a host was not there at the start. */
const LOST = 'HostLostError';
const NOT_STARTED = 'SliceStartError';

export interface GroupLoss {
  readonly reason: string;
  /** The hosts were not all there when it was started again, so it has not run since. */
  readonly isStillAway: boolean;
}

/** null: it is not started again, because it ended in another way or has been started again too often. */
export function lossOf(record: RunRecord, executions: readonly CellExecution[]): GroupLoss | null {
  const error = executions
    .flatMap(({ outputs }) => outputs.map(({ output }) => output))
    .find(({ output_type }) => output_type === 'error');
  if (error?.output_type !== 'error') return null;
  const { ename, evalue } = error;
  const [reason = ename] = evalue.split(/\.(?:\s|$)/, 1);
  if (ename === LOST) return mayStartAgain(record) ? { reason, isStillAway: false } : null;
  const last = record.again?.losses.at(-1);
  const isAwaited = last !== undefined && Date.now() - Date.parse(last.at) < AWAY_MS;
  return ename === NOT_STARTED && isAwaited && isRerunnable(record) ? { reason, isStillAway: true } : null;
}

/** The machine of the kernel is another one by now, and does not know the kernel; null: as with `lossOf`. */
export function lossOfMachine(record: RunRecord): GroupLoss | null {
  const isSlice = record.again?.kernelName.startsWith(SLICE_KERNELS) === true;
  if (!isSlice || !mayStartAgain(record)) return null;
  return { reason: 'Host 0 is lost: its machine was recreated', isStillAway: false };
}

function isCounted({ again, kernelId }: RunRecord): boolean {
  return again?.losses.at(-1)?.kernelId === kernelId;
}

function mayStartAgain(record: RunRecord): boolean {
  const { again } = record;
  return isCounted(record) ? isRerunnable(record) : again !== undefined && again.losses.length < again.most;
}

/** Somebody may have decided otherwise while a host was away. */
function isRerunnable({ again }: RunRecord): boolean {
  return again !== undefined && again.losses.length <= again.most;
}

/** Resolves with the record of the new try, or of a run that took the place of this one; null: nobody wants to follow it any more. */
export async function startAgain(
  { calls, file, record: before, signal, note, awayPollMs = AWAY_POLL_MS }: Follow,
  { reason, isStillAway }: GroupLoss
): Promise<RunRecord | null> {
  if (isStillAway) {
    note(`${reason}. Trying again in ${Math.round(awayPollMs / 1000)} s.`);
    await pause(awayPollMs, signal);
  } else if (before.again !== undefined && !isCounted(before)) {
    const { again, kernelId } = before;
    const losses = [...again.losses, { at: new Date().toISOString(), reason, kernelId }];
    await file.write({ ...before, again: { ...again, losses } });
    note(`${reason}. Running the notebook again (${losses.length} of at most ${again.most} times).`);
  }
  const path = sessionPath(await realpath(before.notebook));
  for (let isAway = false; !signal.aborted;) {
    const record = await file.read();
    if (record?.again === undefined || record.kernelId !== before.kernelId || !isRerunnable(record))
      return record;
    const { kernelName, cells, isPython = true } = record.again;
    const folder = record.remote === null ? dirname(before.notebook) : null;
    try {
      for (const session of await calls.sessions()) if (session.path === path) await calls.end(session.id);
      const next = { ...record, ...(await calls.start({ path, kernelName, isPython, folder }, cells)) };
      await file.write(next);
      return next;
    } catch (error) {
      if (!mayPass(error)) throw error;
      if (!isAway) note(`It cannot be started now: ${error.message} Trying until it can.`);
      isAway = true;
      await pause(awayPollMs, signal);
    }
  }
  return null;
}

/** The remote is being connected or set up again. */
function mayPass(error: unknown): error is Error {
  if (error instanceof CommandError) return true;
  const status = error instanceof GatewayRefusal ? (error.status ?? 503) : 400;
  return status >= 500 || status === 404;
}

/* `<state>/notebook-runs/KEY.json`: a run that was started from here, so that it can be followed again, and how it ended. */

/** A host of the slice was lost, and the notebook started again. */
const RunLoss = Type.Object({
  at: Type.String(),
  reason: Type.String(),
  kernelId: Type.String({ description: 'the kernel that ended' })
});

const RunRecord = Type.Object({
  notebook: Type.String({ description: 'absolute' }),
  remote: Type.Union([Type.String(), Type.Null()]),
  kernelId: Type.String(),
  sessionId: Type.String(),
  keepKernel: Type.Boolean(),
  startedAt: Type.String(),
  skipped: Type.Optional(Type.Integer({ description: 'cells with the tag skip-execution' })),
  /** Absent in those of earlier versions, which do not start again. */
  again: Type.Optional(
    Type.Object({
      kernelName: Type.String(),
      isPython: Type.Optional(Type.Boolean()),
      cells: Type.Array(
        Type.Object({
          id: Type.Union([Type.String(), Type.Null()]),
          source: Type.String(),
          mayRaise: Type.Optional(Type.Boolean({ description: 'its tag raises-exception' }))
        })
      ),
      most: Type.Integer({ description: 'maximum number of restarts' }),
      losses: Type.Array(RunLoss)
    })
  ),
  /** null: nobody has seen its end. */
  failure: Type.Union([Type.String(), Type.Null()]),
  endedAt: Type.Union([Type.String(), Type.Null()])
});
export type RunRecord = Static<typeof RunRecord>;

/** As a program reads it: without the code. */
export function shownRun({ again, ...record }: RunRecord): object {
  return { ...record, restarts: again?.losses ?? [], restartsAtMost: again?.most ?? 0 };
}

/** One for each notebook and machine: the last one. */
export class RunFile {
  readonly #folder: string;
  readonly #key: string;

  constructor(stateDir: string, notebook: string, remote: string | null) {
    this.#folder = path.join(stateDir, 'notebook-runs');
    this.#key = createHash('sha256')
      .update(JSON.stringify([notebook, remote]))
      .digest('hex')
      .slice(0, 16);
  }

  /** Held by the one who writes the outputs into the notebook. */
  get lockFile(): string {
    return path.join(this.#folder, `${this.#key}.lock`);
  }

  async read(): Promise<RunRecord | null> {
    const text = await readFile(this.#file, 'utf8').catch(() => null);
    if (text === null) return null;
    const record: unknown = JSON.parse(text);
    return Value.Check(RunRecord, record) ? record : null;
  }

  async write(record: RunRecord): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await writeAtomically(this.#file, JSON.stringify(record));
  }

  get #file(): string {
    return path.join(this.#folder, `${this.#key}.json`);
  }
}
