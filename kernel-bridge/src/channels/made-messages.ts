/**
 * The one message that the gateway makes itself: the status of a kernel, for a client that comes late.
 *
 * It carries the kernel's own session id. JupyterLab takes a message of another session for a sign that the kernel was
 * restarted, and drops the work it had queued.
 */
import { randomUUID } from 'node:crypto';
import type { KernelSnapshot } from '../keeper/contract.js';
import { encodeV1 } from '../wire/index.js';

/** An iopub `status: busy` whose parent is the running request; null when there is nothing true to say. */
export function busyStatus(snapshot: KernelSnapshot, now: Date): Buffer | null {
  const { executionState, kernelSession, busyParent } = snapshot;
  if (executionState !== 'busy' || kernelSession === null || busyParent === null) return null;
  return statusFrame(kernelSession, 'busy', busyParent, now);
}

/** An iopub `status: dead`, for when the keeper itself has gone and can no longer say so. */
export function deadStatus(snapshot: KernelSnapshot, now: Date): Buffer | null {
  if (snapshot.kernelSession === null) return null;
  return statusFrame(snapshot.kernelSession, 'dead', '{}', now);
}

function statusFrame(session: string, state: string, parent: string, now: Date): Buffer {
  const header = {
    msg_id: randomUUID(),
    msg_type: 'status',
    username: 'kernel',
    session,
    date: now.toISOString(),
    version: '5.3'
  };
  return encodeV1({
    channel: 'iopub',
    parts: [
      Buffer.from(JSON.stringify(header)),
      Buffer.from(parent),
      Buffer.from('{}'),
      Buffer.from(JSON.stringify({ execution_state: state }))
    ]
  });
}
