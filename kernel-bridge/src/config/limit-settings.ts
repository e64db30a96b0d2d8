/** How much the gateway takes and holds, and how long it waits for clients. */
import { CONFIRMATION_DEFAULTS } from '../channels/confirmations.js';
import { LEASE_TIMES } from '../channels/client-leases.js';
import { HELD_LIMITS } from '../channels/held-requests.js';
import { UNSENT_LIMIT_BYTES } from '../channels/unsent-budget.js';
import { ATTEMPT_LIMITS } from '../server/failed-attempts.js';
import { HTTP_LIMITS } from '../server/http-limits.js';
import { MAX_TIMER_S, MIB, named, type SettingTable } from './setting.js';
import * as kinds from './setting-kinds.js';

const MAX_INT = Number.MAX_SAFE_INTEGER;

export const LIMIT_SETTINGS = {
  maxBodyBytes: {
    ...named(['ServerApp'], 'max_body_size'),
    variable: 'TPULAB_MAX_BODY_SIZE',
    kind: kinds.bytes(1024),
    fallback: 4 * MIB,
    help: 'largest body of a REST request'
  },
  maxMessageBytes: {
    ...named(['Bridge'], 'max_message_bytes'),
    variable: 'TPULAB_MAX_MESSAGE_BYTES',
    kind: kinds.bytes(MIB, 2 ** 31 - 1),
    fallback: 256 * MIB,
    help: 'largest WebSocket message from a client; buffers of widgets count'
  },
  maxHeaderBytes: {
    ...named(['Bridge'], 'max_header_bytes'),
    variable: 'TPULAB_MAX_HEADER_BYTES',
    kind: kinds.bytes(4096, MIB),
    fallback: HTTP_LIMITS.headerBytes,
    help: 'largest request line and headers together'
  },
  maxSockets: {
    ...named(['Bridge'], 'max_sockets'),
    variable: 'TPULAB_MAX_SOCKETS',
    kind: kinds.number({ what: 'a count', min: 1, max: 100_000, whole: true }),
    fallback: 1024,
    help: 'WebSockets that may be open at a time'
  },
  authFailuresPerMinute: {
    ...named(['Bridge'], 'auth_failures_per_minute'),
    variable: 'TPULAB_AUTH_FAILURES_PER_MINUTE',
    kind: kinds.number({ what: 'a count', min: 1, max: MAX_INT, whole: true }),
    fallback: ATTEMPT_LIMITS.perWindow,
    help: 'requests without a valid token that one address may make before it is answered 429'
  },
  unsentBytes: {
    ...named(['Bridge'], 'unsent_bytes'),
    variable: 'TPULAB_UNSENT_BYTES',
    kind: kinds.bytes(MIB),
    fallback: UNSENT_LIMIT_BYTES,
    help: 'memory that all slow clients together may have waiting for them'
  },
  heldBytes: {
    ...named(['Bridge'], 'held_bytes'),
    variable: 'TPULAB_HELD_BYTES',
    kind: kinds.bytes(MIB),
    fallback: HELD_LIMITS.bytes,
    help: 'memory for requests that wait while their kernel cannot be reached'
  },
  subshellLeaseS: {
    ...named(['Bridge'], 'subshell_lease'),
    variable: 'TPULAB_SUBSHELL_LEASE',
    kind: kinds.number({ what: 'seconds', min: 1, max: MAX_TIMER_S, whole: false }),
    fallback: LEASE_TIMES.subshellMs / 1000,
    help: 'seconds for which the subshells of a client that has gone are kept for its return'
  },
  debuggerLeaseS: {
    ...named(['Bridge'], 'debugger_lease'),
    variable: 'TPULAB_DEBUGGER_LEASE',
    kind: kinds.number({ what: 'seconds', min: 1, max: MAX_TIMER_S, whole: false }),
    fallback: LEASE_TIMES.debuggerMs / 1000,
    help: 'seconds for which a client that debugs and has gone keeps the debugger'
  },
  pingIntervalS: {
    ...named(['ServerApp'], 'websocket_ping_interval'),
    variable: 'TPULAB_WEBSOCKET_PING_INTERVAL',
    kind: kinds.number({ what: 'seconds', min: 1, max: 3600, whole: false }),
    fallback: CONFIRMATION_DEFAULTS.heartbeatMs / 1000,
    help: 'seconds between pings on a quiet WebSocket'
  },
  pingTimeoutS: {
    ...named(['ServerApp'], 'websocket_ping_timeout'),
    variable: 'TPULAB_WEBSOCKET_PING_TIMEOUT',
    kind: kinds.number({ what: 'seconds', min: 2, max: 86_400, whole: false }),
    fallback: CONFIRMATION_DEFAULTS.silenceMs / 1000,
    help: 'seconds of silence after which a client counts as gone; more than the interval'
  },
  backStep: {
    ...named(['Bridge'], 'back_step'),
    variable: 'TPULAB_BACK_STEP',
    kind: kinds.number({ what: 'records', min: 0, max: 1_000_000, whole: true }),
    fallback: CONFIRMATION_DEFAULTS.backStep,
    help: 'records that a stock client gets again when it returns, before those that it has not confirmed'
  }
} satisfies Partial<SettingTable>;
