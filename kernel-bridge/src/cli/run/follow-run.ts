/** Follows a run until it ends: writes the kernel's output into the notebook as it arrives, across every loss of the connection. */
import { plainText } from '@tpulab/platform/plain-text.js';
import type { CapturedOutputs, CellExecution } from '@tpulab/protocol';
import { LockHeldError, type ProcessLock, takeProcessLock } from '@tpulab/platform/process-lock.js';
import { CommandError } from '../output.js';
import { NotebookFile } from '../outputs/notebook-file.js';
import { outputsOf, placeOutputs, widgetsOf, withWidgetOutputs } from '../outputs/place-outputs.js';
import { GatewayRefusal } from '../running-gateway.js';
import {
  type Follow,
  type GroupLoss,
  lossOf,
  lossOfMachine,
  type RunFile,
  type RunRecord,
  rerun
} from './rerun.js';
import { pause } from '@tpulab/platform/waiting.js';

const POLL_MS = 500;
/** The longest wait for output that arrives after the reply of its cell; a thread of the notebook may print forever. */
const SETTLE_MS = 10_000;
const SETTLE_POLL_MS = 50;
/** How often an unwritable notebook is tried again at the end: another program may just have saved it. */
const SAVE_TRIES = 3;
/** A newly started gateway may not know its kernels yet. */
const UNKNOWN_MS = 20_000;
const LOST = 'The kernel no longer exists: its machine was recreated, or its journal was removed.';
/** The keeper's message for a deliberate restart. */
const RESTARTED = /^restart/;
const FINAL_STATES = new Set<CellExecution['state']>(['ok', 'error', 'aborted', 'lost']);

/** Resolves with the record of an ended run; null: following was cancelled. */
export async function followRun(follow: Follow): Promise<RunRecord | null> {
  for (let { record } = follow; ;) {
    const next = await followTry({ ...follow, record });
    if (next === null || next.endedAt !== null) return next;
    record = next;
  }
}

/** Like `followRun`, but resolves with the new record when the run is restarted. */
async function followTry(follow: Follow): Promise<RunRecord | null> {
  const { calls, file, record, signal, note } = follow;
  const all = new Map<string, CellExecution>();
  const printed = new Set<string>();
  const widgets = new Map<string, CapturedOutputs>();
  let until = 0;
  // Whether the kernel was idle at the last poll: all output before that poll is in the next page.
  let wasIdle = false;
  let settlesUntil = Number.POSITIVE_INFINITY;
  let saved: Saved = { leftOut: 0, problem: null };
  const disconnection: { isReported: boolean; unknownSince: number | null } = {
    isReported: false,
    unknownSince: null
  };
  await using writer = await writerOf(file);
  while (!signal.aborted) {
    const page = await calls.outputs(record.kernelId, until).catch((error: unknown) => {
      const refusal = error instanceof GatewayRefusal ? error : null;
      const status = refusal?.status ?? null;
      if (status !== null && status < 500 && status !== 404) throw error;
      disconnection.unknownSince =
        refusal?.code === 'kernel_not_found' ? (disconnection.unknownSince ?? performance.now()) : null;
      if (!disconnection.isReported)
        note(
          `${record.remote ?? 'The server'} cannot be reached now; the run continues there. Waiting for it.`
        );
      disconnection.isReported = true;
      return null;
    });
    if (page !== null) {
      disconnection.isReported = false;
      disconnection.unknownSince = null;
      until = page.until;
      for (const execution of page.executions) all.set(execution.msgId, execution);
      for (const widget of page.widgets) widgets.set(widget.commId, widget);
      const executions = [...all.values()];
      const hasChanges = page.executions.length + page.widgets.length > 0;
      if ((hasChanges || saved.problem !== null) && writer) {
        const { problem } = saved;
        saved = await saveInto(record.notebook, executions, [...widgets.values()]);
        if (saved.problem !== null && saved.problem !== problem) note(saved.problem);
      }
      printCells(executions, printed, note);
      const isOver = all.size > 0 && executions.every(({ state }) => FINAL_STATES.has(state));
      // In a flood of output, the reply of a cell may overtake the output.
      if (isOver && page.alive && (hasChanges || !wasIdle) && performance.now() < settlesUntil) {
        if (settlesUntil === Number.POSITIVE_INFINITY) settlesUntil = performance.now() + SETTLE_MS;
        wasIdle = (await calls.kernel(record.kernelId))?.execution_state !== 'busy';
        await pause(SETTLE_POLL_MS, signal);
        continue;
      }
      // After the kernel's end, one more check has read the whole journal.
      if (isOver || !page.alive) {
        for (let more = SAVE_TRIES; saved.problem !== null && more > 0; more--) {
          await pause(POLL_MS, signal);
          saved = await saveInto(record.notebook, executions, [...widgets.values()]);
        }
        const isLost = executions.some(({ state }) => state === 'lost');
        const kernel = isLost || !page.alive ? await calls.kernel(record.kernelId) : null;
        const end = kernel?.last_end ?? kernel?.reason ?? null;
        const failure = failureOf(executions, record, end);
        if (failure !== null && isLost && writer) {
          saved = await saveInto(record.notebook, noteEnd(executions, failure), [...widgets.values()]);
        }
        const isRestarted = end !== null && RESTARTED.test(end);
        return await endOrContinue({ ...follow, isRestarted }, writer && saved, failure, now =>
          lossOf(now, executions)
        );
      }
    } else if (
      disconnection.unknownSince !== null &&
      performance.now() - disconnection.unknownSince > UNKNOWN_MS
    ) {
      return await endOrContinue(follow, writer && saved, LOST, lossOfMachine);
    }
    await pause(POLL_MS, signal);
  }
  return null;
}

/** @param saved null: another process writes the notebook */
async function endOrContinue(
  follow: Follow,
  saved: Saved | null,
  failure: string | null,
  lossIn: (record: RunRecord) => GroupLoss | null
): Promise<RunRecord | null> {
  const { file, signal } = follow;
  // Another process may have changed the record: the restart limit, or the restart itself.
  const record = (await file.read()) ?? follow.record;
  if (record.kernelId !== follow.record.kernelId || record.endedAt !== null) return record;
  const loss = lossIn(record);
  if (loss === null) return end({ ...follow, record }, { failure, ...saved });
  if (saved) return rerun({ ...follow, record }, loss);
  // The writing process restarts the run; if it ends first, this process takes over at the next check.
  await pause(POLL_MS, signal);
  return record;
}

/** null: another process already follows this run and writes. */
async function writerOf(file: RunFile): Promise<ProcessLock | null> {
  try {
    return await takeProcessLock(file.lockFile);
  } catch (error) {
    if (error instanceof LockHeldError) return null;
    throw error;
  }
}

interface Saved {
  /** Cells whose outputs are not in the notebook, because they were edited or removed meanwhile. */
  readonly leftOut: number;
  /** Why the notebook could not be written; null: it was. */
  readonly problem: string | null;
}

/** Skips a cell that was edited meanwhile. */
async function saveInto(
  notebook: string,
  executions: readonly CellExecution[],
  widgets: readonly CapturedOutputs[]
): Promise<Saved> {
  try {
    const file = await NotebookFile.read(notebook);
    const placed = placeOutputs(file.notebook.codeCells, executions, { force: false, cells: null });
    const text = withWidgetOutputs(file.notebook.withOutputs(outputsOf(placed)), widgetsOf(placed, widgets));
    if (text !== file.text) await file.replace(text, { backup: false });
    const written = new Set(placed.map(each => (each.placement === 'written' ? each.execution : null)));
    const leftOut = executions.filter(each => each.outputs.length > 0 && !written.has(each)).length;
    return { leftOut, problem: null };
  } catch (error) {
    // Another program saved the file at this moment, or the disk is full: the next check writes the outputs, which the
    // journal still has.
    if (!(error instanceof CommandError)) throw error;
    return { leftOut: 0, problem: error.message };
  }
}

function printCells(
  executions: readonly CellExecution[],
  printed: Set<string>,
  note: (text: string) => void
): void {
  for (const [at, { msgId, state }] of executions.entries()) {
    if (!FINAL_STATES.has(state) || printed.has(msgId)) continue;
    printed.add(msgId);
    note(`cell ${at + 1} of ${executions.length}: ${state}`);
  }
}

async function end(
  { calls, file, record, isRestarted }: Follow,
  result: Pick<RunRecord, 'failure' | 'leftOut' | 'problem'>
): Promise<RunRecord> {
  const ended = { ...record, ...result, endedAt: new Date().toISOString() };
  await file.write(ended);
  // Ends the kernel to free the chips for the next one. After a person has restarted it, that person uses the chips.
  if (!record.keepKernel && isRestarted !== true) await calls.end(record.sessionId).catch(() => undefined);
  return ended;
}

/**
 * null: every cell finished without an unexpected error.
 *
 * @param end how the kernel ended, if it ended and the cause is known
 */
function failureOf(
  executions: readonly CellExecution[],
  { again }: RunRecord,
  end: string | null
): string | null {
  const at = executions.findIndex(
    ({ state }, index) => state !== 'ok' && !(state === 'error' && again?.cells[index]?.mayRaise === true)
  );
  const execution = executions[at];
  if (!execution) return null;
  const where = `Cell ${at + 1} of ${executions.length}`;
  const outputs = execution.outputs.map(({ output }) => output);
  const error = outputs.find(output => output.output_type === 'error');
  // IPython prints the traceback of an exception group instead of sending an error.
  const printed = outputs.flatMap(each => (each.output_type === 'stream' ? each.text : []));
  const leaves = execution.state === 'error' ? leavesOf(error?.traceback ?? printed) : [];
  if (leaves.length > 0) {
    const more = leaves.length > LEAVES_SHOWN ? ` and ${leaves.length - LEAVES_SHOWN} more` : '';
    return sentence(
      `${where} raised a group of exceptions: ${leaves.slice(0, LEAVES_SHOWN).join('; ')}${more}`
    );
  }
  if (error) return sentence(`${where} raised ${error.ename}: ${error.evalue}`);
  if (execution.state === 'error') return `${where} failed.`;
  if (end !== null && RESTARTED.test(end)) return `${where} did not finish: the kernel was restarted.`;
  return `${where} did not finish: ${end === null ? 'the kernel ended or was restarted' : `the kernel ended: ${end}`}.`;
}

const LEAVES_SHOWN = 3;
const COLOUR = /\x1b\[[\d;]*m/g;

/** The exceptions in an exception group: in Python's traceback, the end of a box precedes the edge of the next one. */
function leavesOf(traceback: readonly string[]): string[] {
  const lines = traceback.join('\n').replace(COLOUR, '').split('\n');
  const edges = lines.map(line => /^ *\+-{3,}/.test(line));
  return lines.flatMap((line, at) => {
    const leaf = /^ +\| ([\w.]+(?:: .*)?)$/.exec(line)?.[1];
    return leaf !== undefined && edges[at + 1] === true ? [plainText(leaf)] : [];
  });
}

/** The first line as a sentence: a message may have many lines, and any ending. */
function sentence(text: string): string {
  const [first = ''] = text.trim().split('\n', 1);
  const line = plainText(first);
  return /[.!?]$/.test(line) ? line : `${line.replace(/[:,;]?\s*$/, '')}.`;
}

/**
 * Writes the reason into the cell in which the kernel ended, where a person looks first. A kernel that dies immediately may
 * lose the message that its cell started: then the first lost cell gets the reason.
 */
function noteEnd(executions: readonly CellExecution[], failure: string): CellExecution[] {
  const [, why = failure] = failure.split(' did not finish: ');
  const evalue = why.charAt(0).toUpperCase() + why.slice(1);
  const output = { output_type: 'error' as const, ename: 'KernelEnded', evalue, traceback: [evalue] };
  const lost = executions.filter(({ state }) => state === 'lost');
  const begun = lost.filter(({ startedAt }) => startedAt !== null);
  const ended = new Set(begun.length > 0 ? begun : lost.slice(0, 1));
  return executions.map(execution =>
    ended.has(execution)
      ? {
          ...execution,
          outputs: [
            ...execution.outputs,
            { output, firstSeq: 0, lastSeq: 0, displayId: null, cursor: null, cutBytes: 0, buffers: 0 }
          ]
        }
      : execution
  );
}
