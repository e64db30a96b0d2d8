/**
 * Messages that the gateway itself creates: the status of a kernel, for a client that attaches late, and the notice that
 * messages are missing. They carry the kernel's own session id.
 */
import { randomUUID } from 'node:crypto';
import { type GapRecord, gapText } from '../journal/record.js';
import type { KernelSnapshot } from '../keeper-protocol/contract.js';
import { encodeV1 } from '../jupyter/index.js';
import { newHeader, newMessage, type NewMessage } from '../jupyter/kernel-message.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

/**
 * The state of a kernel as an iopub `status`, for a client that attaches: `busy` with the running request as its parent, or
 * `idle` with a `kernel_info_request` of ours, as after a request of Jupyter's server. Null when the state is unknown.
 */
export function attachStatus(snapshot: KernelSnapshot): Buffer | null {
  const { executionState, kernelSession, busyParent } = snapshot;
  if (kernelSession === null) return null;
  if (executionState === 'busy' && busyParent !== null) return statusFrame(kernelSession, 'busy', busyParent);
  if (executionState !== 'idle') return null;
  const session = randomUUID();
  const header = newHeader({ msgType: 'kernel_info_request', session, msgId: `${session}_0` });
  return statusFrame(kernelSession, 'idle', header);
}

/** `msg_id` of the request that a kernel is running; null when there is none, or it cannot be read. */
export function busyRequestOf(snapshot: KernelSnapshot | null): string | null {
  const { msg_id: id } = (jsonIn(snapshot?.busyParent) ?? {}) as { msg_id?: unknown };
  return typeof id === 'string' ? id : null;
}

/** An iopub `status: dead`, sent by the gateway when the keeper itself has ended and cannot send one. */
export function deadStatus(snapshot: KernelSnapshot): Buffer | null {
  if (snapshot.kernelSession === null) return null;
  return statusFrame(snapshot.kernelSession, 'dead');
}

/**
 * An iopub `stream` on stderr at the place of missing messages, as output of the request whose header is `parent`,
 * otherwise of the running request. `metadata.tpulab.gap` has the same information for programs. Null when the kernel has
 * never sent a message.
 *
 * The id identifies the gap, so that a client that drops repeated messages shows it once, however often it reconnects: it
 * contains the numbers of the missing records if they have any, because the time of a gap may be the time of its discovery.
 */
export function gapNotice(snapshot: KernelSnapshot, gap: GapRecord, parent: string | null): Buffer | null {
  const { kernelSession, busyParent } = snapshot;
  if (kernelSession === null) return null;
  const { from, to, fromSeq, toSeq } = gap;
  const place = fromSeq === undefined ? `at_${from}_${to}` : `${fromSeq}_${toSeq}`;
  return iopubFrame({
    msgType: 'stream',
    session: kernelSession,
    msgId: `${kernelSession}_gap_${place}`,
    parent: parent ?? busyParent ?? '{}',
    metadata: { tpulab: { gap } },
    content: { name: 'stderr', text: gapText(gap) }
  });
}

function statusFrame(session: string, state: string, parent = '{}'): Buffer {
  return iopubFrame({ msgType: 'status', session, parent, content: { execution_state: state } });
}

function iopubFrame(made: NewMessage): Buffer {
  return encodeV1({ channel: 'iopub', parts: newMessage(made) });
}
