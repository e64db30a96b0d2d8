/**
 * Every setting of `tpulab serve`: its name in a configuration file, its flag, its variable, what it may be and what it is
 * when nobody says. Where Jupyter has the setting it has Jupyter's name. docs/configuration.md lists the same (spec).
 */
import { CONFIRMATION_DEFAULTS } from '../channels/confirmations.js';
import { LEASE_TIMES } from '../channels/client-leases.js';
import { HELD_LIMITS } from '../channels/held-requests.js';
import { UNSENT_LIMIT_BYTES } from '../channels/unsent-budget.js';
import { MAX_SAMPLE_HZ, SAMPLE_HZ } from '../devices/index.js';
import { JOURNAL_LIMITS, MIN_KERNEL_BYTES } from '../journal/journal-limits.js';
import { CULLING_DEFAULTS } from '../kernels/kernel-culling.js';
import { ATTEMPT_LIMITS } from '../server/failed-attempts.js';
import { HTTP_LIMITS } from '../server/http-limits.js';
import * as kinds from './setting-kinds.js';
import type { Kind } from './setting-kinds.js';

export interface Settings {
  readonly host: string;
  readonly port: number;
  readonly unixSocket: string | true | null;
  readonly baseUrl: string;
  readonly token: string | null;
  readonly tokenFile: string | null;
  readonly allowedOrigins: readonly string[];
  readonly allowCredentials: boolean;
  readonly allowedHosts: readonly string[];
  readonly rootDir: string | null;
  readonly stateDir: string | null;
  readonly envDir: string | null;
  readonly logLevel: string;
  readonly defaultKernel: string | null;
  readonly clientEnvs: readonly string[];
  readonly iopubQueue: string | null;
  readonly iopubAlarmBytes: number;
  readonly cullIdleTimeoutS: number;
  readonly cullIntervalS: number;
  readonly cullConnected: boolean;
  readonly shutdownWaitS: number;
  readonly restartLimit: number;
  readonly maxBodyBytes: number;
  readonly maxMessageBytes: number;
  readonly maxHeaderBytes: number;
  readonly maxSockets: number;
  readonly authFailuresPerMinute: number;
  readonly unsentBytes: number;
  readonly heldBytes: number;
  readonly subshellLeaseS: number;
  readonly debuggerLeaseS: number;
  readonly pingIntervalS: number;
  readonly pingTimeoutS: number;
  readonly journalKernelBytes: number;
  readonly journalTotalBytes: number;
  readonly journalRetentionDays: number;
  readonly sampleHz: number;
  readonly checkpointOnNotice: boolean;
  readonly chipTable: string | null;
}

export type SettingKey = keyof Settings;

export interface Setting<T = unknown> {
  /** `Section.name` in a configuration file. */
  readonly name: string;
  /** Other names under which Jupyter knows it. */
  readonly aliases: readonly string[];
  /** As commander writes it; absent: files and variables only. */
  readonly flag?: string;
  readonly variable: string;
  readonly kind: Kind<T>;
  readonly fallback: T | null;
  /** What the fallback is, where it is not a value but depends. */
  readonly fallbackWords?: string;
  readonly help: string;
  readonly isSecret?: true;
}

type SettingTable = { readonly [K in SettingKey]: Setting<NonNullable<Settings[K]>> };

const MIB = 1024 * 1024;
const MAX_INT = Number.MAX_SAFE_INTEGER;
/** Timers of Node hold 31 bits of milliseconds. */
const MAX_TIMER_S = 2_147_483;
const CULLERS = ['MappingKernelManager', 'AsyncMappingKernelManager'];
const KERNEL_MANAGERS = [
  'MappingKernelManager',
  'AsyncMappingKernelManager',
  'MultiKernelManager',
  'AsyncMultiKernelManager'
];

function named(sections: readonly string[], trait: string): { name: string; aliases: readonly string[] } {
  const [name = '', ...aliases] = sections.map(section => `${section}.${trait}`);
  return { name, aliases };
}

export const SETTINGS: SettingTable = {
  host: {
    ...named(['ServerApp'], 'ip'),
    flag: '--host <address>',
    variable: 'TPULAB_HOST',
    kind: kinds.text('an address, or a name of this machine'),
    fallback: '127.0.0.1',
    help: 'address to listen on'
  },
  port: {
    ...named(['ServerApp'], 'port'),
    flag: '--port <number>',
    variable: 'TPULAB_PORT',
    kind: kinds.number({ what: 'a port', min: 0, max: 65_535, whole: true }),
    fallback: 0,
    help: 'port, 0 for a free one'
  },
  unixSocket: {
    ...named(['ServerApp'], 'sock'),
    flag: '--unix-socket [path]',
    variable: 'TPULAB_UNIX_SOCKET',
    kind: kinds.socket,
    fallback: null,
    fallbackWords: 'none; a port is listened on',
    help: 'listen on a unix socket instead of a port (for use over SSH); without a path on run/gateway.sock in the state folder'
  },
  baseUrl: {
    ...named(['ServerApp'], 'base_url'),
    flag: '--base-url <path>',
    variable: 'TPULAB_BASE_URL',
    kind: kinds.text('a path like /bridge/'),
    fallback: '/',
    help: 'prefix of all paths, for a proxy that passes them on unchanged'
  },
  token: {
    ...named(['IdentityProvider', 'ServerApp'], 'token'),
    flag: '--token <token>',
    variable: 'TPULAB_TOKEN',
    kind: kinds.text('a text'),
    fallback: null,
    fallbackWords: 'the one in the state folder, else a random one',
    help: 'token of the gateway, at least 16 characters; better in a variable or a file than as a flag',
    isSecret: true
  },
  tokenFile: {
    ...named(['Bridge'], 'token_file'),
    flag: '--token-file <file>',
    variable: 'TPULAB_TOKEN_FILE',
    kind: kinds.text('the path of a file'),
    fallback: null,
    fallbackWords: 'none',
    help: 'file that holds the token, readable by you alone'
  },
  allowedOrigins: {
    ...named(['ServerApp'], 'allow_origin'),
    flag: '--allow-origin <origin>',
    variable: 'TPULAB_ALLOW_ORIGIN',
    kind: kinds.origins,
    fallback: [],
    help: 'origin of pages that may use the gateway; repeatable'
  },
  allowCredentials: {
    ...named(['ServerApp'], 'allow_credentials'),
    flag: '--allow-credentials',
    variable: 'TPULAB_ALLOW_CREDENTIALS',
    kind: kinds.truth,
    fallback: false,
    help: "pages of allowed origins may use the browser's credentials mode and ?token= for REST (Colab); cookies stay unread"
  },
  allowedHosts: {
    ...named(['ServerApp'], 'local_hostnames'),
    flag: '--allow-host <name>',
    variable: 'TPULAB_ALLOW_HOST',
    kind: kinds.list('a host name', item => (/^[^\s/@?#]+$/.test(item) ? item : kinds.INVALID)),
    fallback: [],
    help: 'further name that the Host header may have; repeatable'
  },
  rootDir: {
    ...named(['ServerApp', ...KERNEL_MANAGERS], 'root_dir'),
    flag: '--root-dir <folder>',
    variable: 'TPULAB_ROOT_DIR',
    kind: kinds.text('a folder'),
    fallback: null,
    fallbackWords: 'the current folder',
    help: 'folder to which the paths of clients are relative'
  },
  stateDir: {
    ...named(['Bridge'], 'state_dir'),
    flag: '--state-dir <folder>',
    variable: 'TPULAB_STATE_DIR',
    kind: kinds.text('a folder'),
    fallback: null,
    fallbackWords: 'tpulab in $XDG_STATE_HOME, else in ~/.local/state',
    help: 'state: kernels, journals, token, log'
  },
  envDir: {
    ...named(['Bridge'], 'env_dir'),
    flag: '--env-dir <folder>',
    variable: 'TPULAB_ENV_DIR',
    kind: kinds.text('a folder'),
    fallback: null,
    fallbackWords: 'tpulab/envs in $XDG_DATA_HOME, else in ~/.local/share',
    help: 'environments of kernels'
  },
  logLevel: {
    ...named(['Application', 'ServerApp', 'JupyterApp'], 'log_level'),
    flag: '--log-level <level>',
    variable: 'TPULAB_LOG_LEVEL',
    kind: kinds.logLevel,
    fallback: 'info',
    help: 'level of gateway.log'
  },
  defaultKernel: {
    ...named(KERNEL_MANAGERS, 'default_kernel_name'),
    flag: '--default-kernel <name>',
    variable: 'TPULAB_DEFAULT_KERNEL',
    kind: kinds.text('the name of a kernelspec'),
    fallback: null,
    fallbackWords: 'an environment of ours, else python3',
    help: 'kernelspec to start when a client names none'
  },
  clientEnvs: {
    ...named(['Bridge'], 'client_envs'),
    variable: 'TPULAB_CLIENT_ENVS',
    kind: kinds.list('the name of a variable', item => (/^[A-Za-z_]\w*$/.test(item) ? item : kinds.INVALID)),
    fallback: [],
    help: 'variables that a request may set for the kernel that it starts, beside KERNEL_*'
  },
  iopubQueue: {
    ...named(['Bridge'], 'iopub_queue'),
    variable: 'TPULAB_IOPUB_QUEUE',
    kind: kinds.text('unbounded or block', given => given === 'unbounded' || given === 'block'),
    fallback: null,
    fallbackWords: 'what the kernelspec says, else unbounded',
    help: 'what a kernel of our launcher does that prints faster than anybody reads: queue without bound, or wait'
  },
  iopubAlarmBytes: {
    ...named(['Bridge'], 'iopub_alarm_bytes'),
    variable: 'TPULAB_IOPUB_ALARM_BYTES',
    kind: kinds.bytes(0),
    fallback: 256 * MIB,
    help: 'memory that waiting outputs of such a kernel may take before its user is told, and again at each doubling; 0: never'
  },
  cullIdleTimeoutS: {
    ...named(CULLERS, 'cull_idle_timeout'),
    variable: 'TPULAB_CULL_IDLE_TIMEOUT',
    kind: kinds.number({ what: 'seconds', min: 0, max: MAX_TIMER_S, whole: false }),
    fallback: CULLING_DEFAULTS.idleTimeoutS,
    help: 'seconds without a message after which a kernel that is idle is shut down; 0: never'
  },
  cullIntervalS: {
    ...named(CULLERS, 'cull_interval'),
    variable: 'TPULAB_CULL_INTERVAL',
    kind: kinds.number({ what: 'seconds', min: 1, max: MAX_TIMER_S, whole: false }),
    fallback: CULLING_DEFAULTS.intervalS,
    help: 'seconds between two looks for such kernels'
  },
  cullConnected: {
    ...named(CULLERS, 'cull_connected'),
    variable: 'TPULAB_CULL_CONNECTED',
    kind: kinds.truth,
    fallback: CULLING_DEFAULTS.connected,
    help: 'shut such kernels down although clients are attached'
  },
  shutdownWaitS: {
    ...named(['KernelManager', 'AsyncKernelManager', 'ServerKernelManager'], 'shutdown_wait_time'),
    variable: 'TPULAB_SHUTDOWN_WAIT',
    kind: kinds.number({ what: 'seconds', min: 0.1, max: 3600, whole: false }),
    fallback: 5,
    help: 'seconds that a kernel has to end by itself before it is killed'
  },
  restartLimit: {
    ...named(['KernelRestarter', 'AsyncIOLoopKernelRestarter'], 'restart_limit'),
    variable: 'TPULAB_RESTART_LIMIT',
    kind: kinds.number({ what: 'a count', min: 0, max: 1000, whole: true }),
    fallback: 5,
    help: 'how often in a row a kernel that crashes is started again'
  },
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
  journalKernelBytes: {
    ...named(['Journal'], 'kernel_bytes'),
    variable: 'TPULAB_JOURNAL_KERNEL_BYTES',
    kind: kinds.bytes(MIN_KERNEL_BYTES),
    fallback: JOURNAL_LIMITS.kernelBytes,
    help: "bytes of one kernel's journal; above, its oldest records go"
  },
  journalTotalBytes: {
    ...named(['Journal'], 'total_bytes'),
    variable: 'TPULAB_JOURNAL_TOTAL_BYTES',
    kind: kinds.bytes(MIN_KERNEL_BYTES),
    fallback: JOURNAL_LIMITS.totalBytes,
    help: 'bytes of all journals; above, those of ended kernels go first'
  },
  journalRetentionDays: {
    ...named(['Journal'], 'retention_days'),
    variable: 'TPULAB_JOURNAL_RETENTION_DAYS',
    kind: kinds.number({ what: 'days', min: 0, max: 36_500, whole: false }),
    fallback: JOURNAL_LIMITS.retentionMs / 86_400_000,
    help: 'days for which a journal is kept after its kernel has ended'
  },
  checkpointOnNotice: {
    ...named(['Bridge'], 'checkpoint_on_notice'),
    variable: 'TPULAB_CHECKPOINT_ON_NOTICE',
    kind: kinds.truth,
    fallback: true,
    help: 'ask runs for a checkpoint when the cloud announces that it takes this machine back or stops it'
  },
  sampleHz: {
    ...named(['Bridge'], 'sample_hz'),
    variable: 'TPULAB_SAMPLE_HZ',
    kind: kinds.number({ what: 'samples a second', min: 0, max: MAX_SAMPLE_HZ, whole: false }),
    fallback: SAMPLE_HZ,
    help: 'samples of the machine and its chips a second while a page looks; 0 for none but those that are asked for'
  },
  chipTable: {
    ...named(['Bridge'], 'chip_table'),
    flag: '--chip-table <file>',
    variable: 'TPULAB_CHIP_TABLE',
    kind: kinds.text('the path of a file'),
    fallback: null,
    fallbackWords: 'none',
    help: 'JSON file that corrects or extends what is known of chips (docs/devices.md)'
  }
};

export const SETTING_KEYS = Object.keys(SETTINGS) as SettingKey[];

/** Settings that Jupyter has and the bridge on purpose does not, with what to do instead. */
export const NOT_HERE: Readonly<Record<string, string>> = {
  'ServerApp.allow_origin_pat':
    'patterns let in pages that nobody had in mind; list the exact origins in ServerApp.allow_origin',
  'ServerApp.allow_remote_access':
    'the Host header is always checked; name further hosts in ServerApp.local_hostnames',
  'ServerApp.allow_unauthenticated_access': 'every request needs a token',
  'ServerApp.disable_check_xsrf': 'there are no cookies, so nothing to forge; leave it out',
  'ServerApp.password':
    'there are no passwords; use IdentityProvider.token, or "tpulab token create NAME" for each client',
  'PasswordIdentityProvider.hashed_password': 'there are no passwords; use IdentityProvider.token',
  'ServerApp.certfile':
    'the bridge speaks plain HTTP on this machine; use SSH, or a proxy that has the certificate',
  'ServerApp.keyfile':
    'the bridge speaks plain HTTP on this machine; use SSH, or a proxy that has the certificate',
  'ServerApp.sock_mode': 'the socket is always 0600 in a folder of 0700',
  'MappingKernelManager.cull_busy':
    'a kernel that is working is never shut down for being idle; leave it out',
  'ServerApp.limit_rate': 'output is never dropped for its rate; leave it out',
  'ServerApp.iopub_msg_rate_limit': 'output is never dropped for its rate; leave it out',
  'ServerApp.iopub_data_rate_limit': 'output is never dropped for its rate; leave it out',
  'ServerApp.port_retries': 'a taken port is an error; choose another, or 0 for a free one'
};
