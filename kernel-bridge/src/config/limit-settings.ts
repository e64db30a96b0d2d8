/** How much the gateway takes and holds, and how long it waits for clients. */
import { CONFIRMATION_DEFAULTS } from '../channels/confirmations.js';
import { LEASE_TIMES } from '../channels/client-leases.js';
import { HELD_LIMITS } from '../channels/held-requests.js';
import { UNSENT_LIMIT_BYTES } from '../channels/unsent-budget.js';
import { ATTEMPT_LIMITS } from '../http/failed-attempts.js';
import { HTTP_LIMITS } from '../http/http-limits.js';
import { MAX_TIMER_S, MIB, named, type SettingTable } from './setting.js';
import * as kinds from './setting-kinds.js';

const MAX_INT = Number.MAX_SAFE_INTEGER;

export const LIMIT_SETTINGS = {
  maxBodyBytes: {
    ...named(['ServerApp'], 'max_body_size'),
    variable: 'TPULAB_MAX_BODY_SIZE',
    kind: kinds.bytes(1024),
    fallback: 4 * MIB,
    help: 'maximum size of a REST request body in bytes'
  },
  maxMessageBytes: {
    ...named(['Bridge'], 'max_message_bytes'),
    variable: 'TPULAB_MAX_MESSAGE_BYTES',
    kind: kinds.bytes(MIB, 2 ** 31 - 1),
    fallback: 256 * MIB,
    help: "maximum size of a client's WebSocket message in bytes, widget buffers included"
  },
  maxHeaderBytes: {
    ...named(['Bridge'], 'max_header_bytes'),
    variable: 'TPULAB_MAX_HEADER_BYTES',
    kind: kinds.bytes(4096, MIB),
    fallback: HTTP_LIMITS.headerBytes,
    help: 'maximum size of request line and headers in bytes'
  },
  maxSockets: {
    ...named(['Bridge'], 'max_sockets'),
    variable: 'TPULAB_MAX_SOCKETS',
    kind: kinds.number({ what: 'a count', min: 1, max: 100_000, whole: true }),
    fallback: 1024,
    help: 'maximum number of open WebSockets'
  },
  authFailuresPerMinute: {
    ...named(['Bridge'], 'auth_failures_per_minute'),
    variable: 'TPULAB_AUTH_FAILURES_PER_MINUTE',
    kind: kinds.number({ what: 'a count', min: 1, max: MAX_INT, whole: true }),
    fallback: ATTEMPT_LIMITS.perWindow,
    help: 'requests without a valid token per address and minute before the server answers 429'
  },
  unsentBytes: {
    ...named(['Bridge'], 'unsent_bytes'),
    variable: 'TPULAB_UNSENT_BYTES',
    kind: kinds.bytes(MIB),
    fallback: UNSENT_LIMIT_BYTES,
    help: 'memory in bytes for output queued for all slow clients together'
  },
  heldBytes: {
    ...named(['Bridge'], 'held_bytes'),
    variable: 'TPULAB_HELD_BYTES',
    kind: kinds.bytes(MIB),
    fallback: HELD_LIMITS.bytes,
    help: 'memory in bytes for requests held while their kernel is unreachable'
  },
  subshellLeaseS: {
    ...named(['Bridge'], 'subshell_lease'),
    variable: 'TPULAB_SUBSHELL_LEASE',
    kind: kinds.number({ what: 'seconds', min: 1, max: MAX_TIMER_S, whole: false }),
    fallback: LEASE_TIMES.subshellMs / 1000,
    help: 'seconds to keep the subshells of a disconnected client'
  },
  debuggerLeaseS: {
    ...named(['Bridge'], 'debugger_lease'),
    variable: 'TPULAB_DEBUGGER_LEASE',
    kind: kinds.number({ what: 'seconds', min: 1, max: MAX_TIMER_S, whole: false }),
    fallback: LEASE_TIMES.debuggerMs / 1000,
    help: 'seconds to keep the debugger attached for a disconnected client'
  },
  pingIntervalS: {
    ...named(['ServerApp'], 'websocket_ping_interval'),
    variable: 'TPULAB_WEBSOCKET_PING_INTERVAL',
    kind: kinds.number({ what: 'seconds', min: 1, max: 3600, whole: false }),
    fallback: CONFIRMATION_DEFAULTS.heartbeatMs / 1000,
    help: 'seconds between pings on an idle WebSocket'
  },
  pingTimeoutS: {
    ...named(['ServerApp'], 'websocket_ping_timeout'),
    variable: 'TPULAB_WEBSOCKET_PING_TIMEOUT',
    kind: kinds.number({ what: 'seconds', min: 2, max: 86_400, whole: false }),
    fallback: CONFIRMATION_DEFAULTS.silenceMs / 1000,
    help: 'seconds without an answer after which a client counts as disconnected; must exceed the interval'
  },
  backStep: {
    ...named(['Bridge'], 'back_step'),
    variable: 'TPULAB_BACK_STEP',
    kind: kinds.number({ what: 'records', min: 0, max: 1_000_000, whole: true }),
    fallback: CONFIRMATION_DEFAULTS.backStep,
    help: 'records to repeat when a stock client reconnects, before the ones it has not confirmed'
  }
} satisfies Partial<SettingTable>;
