/**
 * Restarts a run on a slice that has lost a host: on new processes on all hosts, from its first cell. Training that saves
 * checkpoints continues from its last one.
 */
import { mkdir, readFile, realpath } from 'node:fs/promises';
import path, { dirname } from 'node:path';
import type { CellExecution } from '@tpulab/protocol';
import { SLICE_KERNELS } from '@tpulab/machines';
import { pause } from '@tpulab/platform/waiting.js';
import { CommandError } from '../output.js';
import { GatewayRefusal } from '../running-gateway.js';
import { type BridgeCalls, sessionPath } from './bridge-calls.js';
import { createHash } from 'node:crypto';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { writeAtomically } from '@tpulab/platform/write-atomically.js';

export interface Follow {
  readonly calls: BridgeCalls;
  readonly file: RunFile;
  readonly record: RunRecord;
  readonly signal: AbortSignal;
  /** Receives a line for people. */
  readonly note: (text: string) => void;
  /** Interval between two attempts to start while a host of a slice is unreachable. Default 30 s. */
  readonly awayPollMs?: number;
  /** Whether a person has restarted the kernel meanwhile. */
  readonly isRestarted?: boolean;
}

/** Default limit of restarts. */
export const RESTARTS = 3;
/** Interval between two attempts to start while a host is unreachable. */
const AWAY_POLL_MS = 30_000;
/** A preempted machine may take hours to return; after this time the run gives up. */
const MAX_ABSENCE_MS = 24 * 60 * 60_000;

/** The errors of a slice's kernel when a host was lost, and when a host was missing at the start. */
const LOST = 'HostLostError';
const NOT_STARTED = 'SliceStartError';

export interface GroupLoss {
  readonly reason: string;
  /** Not all hosts were available at the restart, so the run has not continued since. */
  readonly isStillAway: boolean;
}

/** null: no restart, because the run ended for another reason or was restarted too often. */
export function lossOf(record: RunRecord, executions: readonly CellExecution[]): GroupLoss | null {
  const error = executions
    .flatMap(({ outputs }) => outputs.map(({ output }) => output))
    .find(({ output_type }) => output_type === 'error');
  if (error?.output_type !== 'error') return null;
  const { ename, evalue } = error;
  const [reason = ename] = evalue.split(/\.(?:\s|$)/, 1);
  if (ename === LOST) return mayRerun(record) ? { reason, isStillAway: false } : null;
  const last = record.again?.losses.at(-1);
  const isAwaited = last !== undefined && Date.now() - Date.parse(last.at) < MAX_ABSENCE_MS;
  return ename === NOT_STARTED && isAwaited && isRerunnable(record) ? { reason, isStillAway: true } : null;
}

/** The kernel's machine was replaced by another one, which does not know the kernel; null: as for `lossOf`. */
export function lossOfMachine(record: RunRecord): GroupLoss | null {
  const isSlice = record.again?.kernelName.startsWith(SLICE_KERNELS) === true;
  if (!isSlice || !mayRerun(record)) return null;
  return { reason: 'Host 0 is lost: its machine was recreated', isStillAway: false };
}

function isCounted({ again, kernelId }: RunRecord): boolean {
  return again?.losses.at(-1)?.kernelId === kernelId;
}

function mayRerun(record: RunRecord): boolean {
  const { again } = record;
  return isCounted(record) ? isRerunnable(record) : again !== undefined && again.losses.length < again.most;
}

/** A person may have changed the decision while a host was unreachable. */
function isRerunnable({ again }: RunRecord): boolean {
  return again !== undefined && again.losses.length <= again.most;
}

/** Resolves with the record of the new attempt, or of a run that replaced this one; null: following was cancelled. */
export async function rerun(
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

/** Whether the error may be temporary: the remote is being connected or set up again. */
function mayPass(error: unknown): error is Error {
  if (error instanceof CommandError) return true;
  const status = error instanceof GatewayRefusal ? (error.status ?? 503) : 400;
  return status >= 500 || status === 404;
}

/* `<state>/notebook-runs/KEY.json`: a run that was started from here, so that it can be followed again, and its result. */

/** A host of the slice was lost, and the notebook was restarted. */
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
  /** Missing in records of earlier versions, which do not restart runs. */
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
  /** null: no process has observed its end. */
  failure: Type.Union([Type.String(), Type.Null()]),
  problem: Type.Optional(
    Type.Union([Type.String(), Type.Null()], { description: 'why the notebook lacks outputs' })
  ),
  leftOut: Type.Optional(Type.Integer({ description: 'cells edited or removed meanwhile, so not written' })),
  endedAt: Type.Union([Type.String(), Type.Null()])
});
export type RunRecord = Static<typeof RunRecord>;

/** The record for programs: without the code. */
export function shownRun({ again, ...record }: RunRecord): object {
  return { ...record, restarts: again?.losses ?? [], restartsAtMost: again?.most ?? 0 };
}

/** The last run of a notebook on a machine. */
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

  /** Locked by the process that writes the outputs into the notebook. */
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
