/** The state of the connection to the current kernel, as one word or two, a sentence, and the action of a click. */
import { countText, countdownText } from '@tpulab/protocol';
import type { CurrentKernel } from '../tokens.js';
import type { StreamFailure, StreamState } from '../events/event-stream.js';
import { failureText } from '../events/failure-text.js';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import { trans } from '../text/trans.js';

/**
 * `at-risk`: live, but output cannot be recorded. `live`: output arrives as produced. `replaying`: output missed by the page is being sent.
 * `connecting`: an attempt is under way. `reconnecting`: the next attempt has a time.
 * `lost`: no further automatic attempts. `local`: not a kernel of a bridge.
 */
export type Connection =
  | { readonly kind: 'none' }
  | { readonly kind: 'local' }
  | { readonly kind: 'live' }
  | { readonly kind: 'at-risk'; readonly why: string }
  | { readonly kind: 'connecting' }
  | { readonly kind: 'reconnecting'; readonly retryAt: number; readonly why: StreamFailure | string }
  | { readonly kind: 'replaying'; readonly pending: number }
  | { readonly kind: 'lost'; readonly reason: string; readonly dead: boolean };

interface ConnectionInput {
  readonly current: CurrentKernel;
  readonly stream: StreamState | null;
  readonly telemetry: KernelTelemetry | null;
}

export function connectionOf({ current, stream, telemetry }: ConnectionInput): Connection {
  if (current.kind === 'none' || current.kind === 'no-kernel') return { kind: 'none' };
  if (current.kind === 'local') return { kind: 'local' };
  const { backend, clientId, connection, status } = current;
  if (status === 'dead' || (stream?.kind === 'live' && telemetry?.isDead)) {
    return { kind: 'lost', reason: telemetry?.state?.reason ?? '', dead: true };
  }
  if (backend.lastError?.code === 'remote.preempted') {
    return { kind: 'lost', reason: backend.lastError.message, dead: false };
  }
  if (connection === 'connected') {
    const client = telemetry?.client(clientId);
    if (client?.state === 'replaying') return { kind: 'replaying', pending: client.pending };
    const fault = telemetry?.state?.journalFault;
    return fault ? { kind: 'at-risk', why: fault.message } : { kind: 'live' };
  }
  if (backend.state === 'auth') {
    return { kind: 'lost', reason: backend.lastError?.message ?? '', dead: false };
  }
  const retry = nextRetry(stream, backend.state === 'down' ? backend.nextRetryAt : null);
  if (retry !== null) {
    const why = stream?.kind === 'waiting' ? stream.failure : (backend.lastError?.message ?? '');
    return { kind: 'reconnecting', retryAt: retry, why };
  }
  // The bridge answers, but Lab has given up this kernel's socket: only the user can reconnect it now.
  const hasLabDisconnected =
    connection === 'disconnected' && stream?.kind === 'live' && backend.state === 'ok';
  return hasLabDisconnected ? { kind: 'lost', reason: '', dead: false } : { kind: 'connecting' };
}

/** The earlier of both: either brings the kernel back. */
function nextRetry(stream: StreamState | null, backendRetryAt: number | null): number | null {
  const times = [stream?.kind === 'waiting' ? stream.retryAt : null, backendRetryAt].filter(
    time => time !== null
  );
  return times.length > 0 ? Math.min(...times) : null;
}

interface ConnectionText {
  readonly label: string;
  /** A sentence for the tooltip. */
  readonly detail: string;
  readonly canReconnect: boolean;
}

/** Null when there is nothing to show. */
export function connectionText(connection: Connection, now: number): ConnectionText | null {
  switch (connection.kind) {
    case 'none':
      return null;
    case 'local':
      return {
        label: trans.__('local'),
        detail: trans.__(
          "This kernel belongs to the page's Jupyter server. Output printed while the page is closed is lost."
        ),
        canReconnect: false
      };
    case 'live':
      return {
        label: trans.__('live'),
        detail: trans.__(
          'Connected through the TPULab server. Output printed while the page is closed is kept and replayed.'
        ),
        canReconnect: false
      };
    case 'at-risk':
      return {
        label: trans.__('output at risk'),
        detail: trans.__(
          '%1 New output is held in memory; what does not fit is lost, and a gap shows where.',
          connection.why
        ),
        canReconnect: false
      };
    case 'connecting':
      return {
        label: trans.__('reconnecting…'),
        detail: trans.__(
          'Connecting to the kernel, which keeps running. No output is lost. Click to retry now.'
        ),
        canReconnect: true
      };
    case 'reconnecting':
      return reconnectingText(connection.retryAt - now, connection.why);
    case 'replaying':
      return {
        label: trans.__('replaying (%1 to go)', countText(connection.pending)),
        detail: trans.__('The page receives the output that it missed, in order.'),
        canReconnect: false
      };
    case 'lost':
      return lostText(connection.reason, connection.dead);
  }
}

function reconnectingText(waitMs: number, why: StreamFailure | string): ConnectionText {
  const reassurance = trans.__('The kernel keeps running, and no output is lost. Click to retry now.');
  const cause = typeof why === 'string' ? why : failureText(why);
  return {
    label: trans.__('reconnecting in %1', countdownText(waitMs)),
    detail: cause ? `${cause} ${reassurance}` : reassurance,
    canReconnect: true
  };
}

function lostText(reason: string, dead: boolean): ConnectionText {
  if (dead) {
    return {
      label: trans.__('lost'),
      detail: reason
        ? trans.__('The kernel has ended: %1. Restart it to continue.', reason)
        : trans.__('The kernel has ended. Restart it to continue.'),
      canReconnect: false
    };
  }
  return {
    label: trans.__('lost'),
    detail: reason || trans.__('Disconnected. Click to retry.'),
    canReconnect: true
  };
}
