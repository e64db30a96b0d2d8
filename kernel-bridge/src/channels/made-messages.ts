/**
 * The messages that the gateway makes itself: the status of a kernel, for a client that comes late, and the notice that
 * messages are missing.
 *
 * They carry the kernel's own session id. JupyterLab takes a message of another session for a sign that the kernel was
 * restarted, and drops the work it had queued.
 */
import { randomUUID } from 'node:crypto';
import type { GapRecord } from '../journal/record.js';
import type { KernelSnapshot } from '../keeper-protocol/contract.js';
import { encodeV1 } from '../jupyter/index.js';

/**
 * The state of a kernel as an iopub `status`, for a client that attaches: `busy` with the running request as its parent, or
 * `idle` with a `kernel_info_request` of ours, as Jupyter's server has the kernel say it. Null when there is nothing true to say.
 */
export function attachStatus(snapshot: KernelSnapshot, now: Date): Buffer | null {
  const { executionState, kernelSession, busyParent } = snapshot;
  if (kernelSession === null) return null;
  if (executionState === 'busy' && busyParent !== null)
    return statusFrame(kernelSession, 'busy', busyParent, now);
  if (executionState !== 'idle') return null;
  const session = randomUUID();
  const asked = { msg_id: `${session}_0`, msg_type: 'kernel_info_request', session, ...madeAt(now) };
  return statusFrame(kernelSession, 'idle', JSON.stringify(asked), now);
}

/** An iopub `status: dead`, for when the keeper itself has gone and can no longer say so. */
export function deadStatus(snapshot: KernelSnapshot, now: Date): Buffer | null {
  if (snapshot.kernelSession === null) return null;
  return statusFrame(snapshot.kernelSession, 'dead', '{}', now);
}

/**
 * An iopub `stream` on stderr where messages are missing, as the output of the request whose header is `parent`, else of the
 * one that runs. `metadata.tpulab.gap` has the same for programs. Null when the kernel has never said anything.
 *
 * The id names the gap, so that a client that drops what it has seen shows it once, however often it comes back.
 */
export function gapNotice(
  snapshot: KernelSnapshot,
  gap: GapRecord,
  parent: string | null,
  now: Date
): Buffer | null {
  const { kernelSession, busyParent } = snapshot;
  if (kernelSession === null) return null;
  const { count, reason, from, to, fromSeq = 0, toSeq = 0 } = gap;
  const missing = count === null ? 'An unknown number of messages is' : plural(count);
  return iopubFrame(
    {
      msg_id: `${kernelSession}_gap_${fromSeq}_${toSeq}_${from}_${to}`,
      msg_type: 'stream',
      session: kernelSession
    },
    parent ?? busyParent ?? '{}',
    { tpulab: { gap } },
    { name: 'stderr', text: `[tpulab] ${missing} missing here. ${reason}\n` },
    now
  );
}

function plural(count: number): string {
  return count === 1 ? '1 message is' : `${count} messages are`;
}

function statusFrame(session: string, state: string, parent: string, now: Date): Buffer {
  const ids = { msg_id: randomUUID(), msg_type: 'status', session };
  return iopubFrame(ids, parent, {}, { execution_state: state }, now);
}

function iopubFrame(
  ids: { readonly msg_id: string; readonly msg_type: string; readonly session: string },
  parent: string,
  metadata: object,
  content: object,
  now: Date
): Buffer {
  const header = { ...ids, ...madeAt(now) };
  const parts = [JSON.stringify(header), parent, JSON.stringify(metadata), JSON.stringify(content)];
  return encodeV1({ channel: 'iopub', parts: parts.map(part => Buffer.from(part)) });
}

function madeAt(now: Date): object {
  return { username: 'kernel', date: now.toISOString(), version: '5.3' };
}
