/**
 * Fills the cells of a notebook whose kernel is unreachable, because its machine is disconnected or was deleted, from the outputs that
 * the bridge on this machine has stored. If the kernel comes back, reattaching continues from there: an unfinished cell gets no
 * execution count, like a file that was saved in the middle of a run.
 */
import type { IOutput } from '@jupyterlab/nbformat';
import type { CellExecution, MirroredKernel } from '@tpulab/protocol';
import { decide } from './decide.js';
import type { ICodeCell, INotebook } from './notebook.js';
import type { OutputsApi } from './outputs-api.js';
import { placesOf } from './places.js';
import type { IUnplaced } from './reattachment.js';
import { isSameContent } from './same-content.js';
import { hasScriptable, type ITrust } from './trust.js';

/** The stored outputs of the mirrored kernels. */
export interface IStoredOutputsSource {
  kernels(signal: AbortSignal): Promise<readonly MirroredKernel[]>;
  outputs(kernelId: string): Pick<OutputsApi, 'read' | 'whole' | 'record'>;
  trust(kernelId: string): ITrust;
}

interface IFillOptions {
  readonly stored: IStoredOutputsSource;
  readonly notebook: INotebook;
  /** Path of the notebook, as its session names it. */
  readonly path: string;
  readonly signal: AbortSignal;
}

export interface IFilled {
  /** Ids of the cells. */
  readonly filled: readonly string[];
  /** Ids of these cells whose end is not stored here. */
  readonly unfinished: readonly string[];
  /** Ids of these cells with outputs that are hidden until the user trusts them. */
  readonly untrusted: readonly string[];
  readonly unplaced: readonly IUnplaced[];
  /** The kernel with the newest record among the shown outputs, and its time; null when no outputs are shown. */
  readonly last: { readonly kernelId: string; readonly at: number } | null;
}

interface IFound {
  readonly kernelId: string;
  readonly execution: CellExecution;
  readonly isTrusted: boolean;
  /** Unix milliseconds of its newest stored record. */
  readonly at: number;
}

/** Rejects when the bridge cannot answer, or when `signal` ends it; the notebook is then unchanged. */
export async function fillFromStored({ stored, notebook, path, signal }: IFillOptions): Promise<IFilled> {
  const found: IFound[] = [];
  for (const { kernelId } of (await stored.kernels(signal)).filter(each => mayHaveRun(each, path))) {
    const api = stored.outputs(kernelId);
    const { executions } = await api.read(null, signal);
    const trust = stored.trust(kernelId);
    await trust.learn(executions, signal);
    for (const execution of executions) {
      if (execution.cellId !== null && hasBegun(execution)) {
        found.push({
          kernelId,
          isTrusted: trust.has(execution),
          ...(await completed(execution, api, signal))
        });
      }
    }
  }
  return notebook.isDisposed ? NOTHING : place(newestOfEachCell(found), notebook);
}

const NOTHING: IFilled = { filled: [], unfinished: [], untrusted: [], unplaced: [], last: null };

/** Excludes a kernel that the user has shut down, and the kernel followed now, which reports itself. */
function mayHaveRun({ state, wasShutDown, documents }: MirroredKernel, path: string): boolean {
  return state !== 'following' && !wasShutDown && (documents.length === 0 || documents.includes(path));
}

/** A waiting execution has no outputs yet, and the cell may show an earlier run. */
function hasBegun({ state, executionCount, outputs }: CellExecution): boolean {
  return state !== 'lost' || executionCount !== null || outputs.length > 0;
}

/** The executions with complete outputs. One without a stored end counts as finished at its last record. */
async function completed(
  execution: CellExecution,
  api: Pick<OutputsApi, 'whole' | 'record'>,
  signal: AbortSignal
): Promise<Pick<IFound, 'execution' | 'at'>> {
  const whole = execution.cutBytes > 0 ? await api.whole(execution, signal) : execution;
  const finishedAt =
    whole.finishedAt ?? (await api.record(whole.changedSeq, signal))?.time ?? whole.requestedAt;
  const isOpen = whole.state === 'lost';
  return {
    execution: { ...whole, finishedAt, executionCount: isOpen ? null : whole.executionCount },
    at: Date.parse(finishedAt)
  };
}

function newestOfEachCell(found: readonly IFound[]): IFound[] {
  const newest = new Map<string, IFound>();
  for (const each of found) {
    const { cellId, requestedAt } = each.execution;
    const other = newest.get(cellId ?? '');
    if (other === undefined || Date.parse(other.execution.requestedAt) < Date.parse(requestedAt)) {
      newest.set(cellId ?? '', each);
    }
  }
  return [...newest.values()];
}

/** Places the outputs synchronously, so that nothing changes in between. */
function place(found: readonly IFound[], notebook: INotebook): IFilled {
  const before = notebook.content();
  const wasDirty = notebook.isDirty;
  const filled: (IFound & { readonly id: string })[] = [];
  const unplaced: IUnplaced[] = [];
  for (const { of: each, cell, isAmbiguous } of placesOf(found, notebook)) {
    const { execution, isTrusted, kernelId } = each;
    const decision = decide(execution, cell, notebook.saved, kernelId);
    if (decision === 'changed' || decision === 'missing') {
      unplaced.push({ execution, why: isAmbiguous ? 'ambiguous' : decision, isTrusted });
    } else if (cell !== undefined && decision === 'fill') {
      show(cell, each);
      filled.push({ ...each, id: cell.read().id });
    }
  }
  if (!wasDirty) {
    // Lab does not count outputs as an edit, but here no other page has them.
    notebook.isDirty = !isSameContent(notebook.content(), before);
  }
  const [last = null] = filled.toSorted((a, b) => b.at - a.at);
  return {
    filled: idsOf(filled),
    unfinished: idsOf(filled.filter(({ execution }) => execution.state === 'lost')),
    untrusted: idsOf(filled.filter(({ execution, isTrusted }) => !isTrusted && hasScriptable(execution))),
    unplaced,
    last: last && { kernelId: last.kernelId, at: last.at }
  };
}

function show(cell: ICodeCell, { execution, isTrusted }: IFound): void {
  const { outputs, executionCount } = execution;
  cell.begin(isTrusted);
  cell.show(outputs.map(({ output }) => output as IOutput));
  cell.end(executionCount);
}

function idsOf(found: readonly { readonly id: string }[]): string[] {
  return found.map(({ id }) => id);
}
