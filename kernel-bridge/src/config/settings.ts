/**
 * Every setting of `tpulab serve`: its name in a configuration file, its flag, its variable, its values and its default. A
 * setting that also exists in Jupyter uses Jupyter's name. docs/configuration.md lists the same settings (spec).
 */
import { LEASE_TIMES } from '../channels/client-leases.js';
import { CONFIRMATION_DEFAULTS } from '../channels/confirmations.js';
import { QUEUE_LIMITS } from '../channels/start-queue.js';
import { UNSENT_LIMIT_BYTES } from '../channels/unsent-budget.js';
import { MAX_SAMPLE_HZ, SAMPLE_HZ } from '../devices/index.js';
import { ATTEMPT_LIMITS } from '../http/failed-attempts.js';
import { HTTP_LIMITS } from '../http/http-limits.js';
import { JOURNAL_LIMITS, MIN_KERNEL_BYTES } from '../journal/journal-limits.js';
import { CULLING_DEFAULTS } from '../kernels/kernel-culling.js';
import * as kinds from './setting-kinds.js';

export interface Setting<T = unknown> {
  /** `Section.name` in a configuration file. */
  readonly name: string;
  /** Other names under which Jupyter knows it. */
  readonly aliases: readonly string[];
  /** In commander's notation; if omitted, only files and variables can set it. */
  readonly flag?: string;
  readonly variable: string;
  readonly kind: kinds.Kind<T>;
  readonly fallback: T | null;
  /** Describes a default that depends on other values. */
  readonly fallbackText?: string;
  readonly help: string;
  readonly isSecret?: true;
}

const MIB = 1024 * 1024;
const MAX_INT = Number.MAX_SAFE_INTEGER;
/** Node's timers hold 31 bits of milliseconds. */
const MAX_TIMER_S = 2_147_483;
const CULLERS = ['MappingKernelManager', 'AsyncMappingKernelManager'];
/** Jupyter's manager classes with settings for kernels. */
const KERNEL_MANAGERS = [...CULLERS, 'MultiKernelManager', 'AsyncMultiKernelManager'];

/** Most variables are named after the setting in the file. */
function named(sections: readonly string[], trait: string): Pick<Setting, 'name' | 'aliases' | 'variable'> {
  const [name = '', ...aliases] = sections.map(section => `${section}.${trait}`);
  return { name, aliases, variable: `TPULAB_${trait.toUpperCase()}` };
}

/** In the order of the documentation. */
const TABLE = {
  // Address, access and folders.
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
    fallbackText: 'none; the server listens on a port',
    help: 'listen on a Unix socket instead of a port (for use over SSH); default path: run/gateway.sock in the state folder'
  },
  baseUrl: {
    ...named(['ServerApp'], 'base_url'),
    flag: '--base-url <path>',
    kind: kinds.text('a path like /bridge/', () => true),
    fallback: '/',
    help: 'prefix of all paths, for a proxy that passes them on unchanged'
  },
  token: {
    ...named(['IdentityProvider', 'ServerApp'], 'token'),
    flag: '--token <token>',
    kind: kinds.text('a text', () => true),
    fallback: null,
    fallbackText: 'the token in the state folder, else a random one',
    help: 'token of the server, at least 16 characters; a variable or a file is safer than a flag',
    isSecret: true
  },
  tokenFile: {
    ...named(['Bridge'], 'token_file'),
    flag: '--token-file <file>',
    kind: kinds.text('the path of a file'),
    fallback: null,
    fallbackText: 'none',
    help: 'file with the token; only you may have read access'
  },
  allowedOrigins: {
    ...named(['ServerApp'], 'allow_origin'),
    flag: '--allow-origin <origin>',
    kind: kinds.origins,
    fallback: [],
    help: 'origin of pages that may use the server; repeatable'
  },
  allowCredentials: {
    ...named(['ServerApp'], 'allow_credentials'),
    flag: '--allow-credentials',
    kind: kinds.truth,
    fallback: false,
    help: "let pages of allowed origins use the browser's credentials mode and ?token= for REST (Colab); cookies are ignored"
  },
  allowedHosts: {
    ...named(['ServerApp'], 'local_hostnames'),
    flag: '--allow-host <name>',
    variable: 'TPULAB_ALLOW_HOST',
    kind: kinds.list('a host name', item => (/^[^\s/@?#]+$/.test(item) ? item : kinds.INVALID)),
    fallback: [],
    help: 'additional name accepted in the Host header; repeatable'
  },
  rootDir: {
    ...named(['ServerApp', ...KERNEL_MANAGERS], 'root_dir'),
    flag: '--root-dir <folder>',
    kind: kinds.text('a folder'),
    fallback: null,
    fallbackText: 'the current folder',
    help: "folder that clients' paths are relative to"
  },
  stateDir: {
    ...named(['Bridge'], 'state_dir'),
    flag: '--state-dir <folder>',
    kind: kinds.text('a folder'),
    fallback: null,
    fallbackText: 'tpulab in $XDG_STATE_HOME, else in ~/.local/state',
    help: 'folder for state: kernels, journals, token, log'
  },
  envDir: {
    ...named(['Bridge'], 'env_dir'),
    flag: '--env-dir <folder>',
    kind: kinds.text('a folder'),
    fallback: null,
    fallbackText: '.tpulab/envs in a checkout, else tpulab/envs in $XDG_DATA_HOME, else in ~/.local/share',
    help: 'folder for kernel environments'
  },
  logLevel: {
    ...named(['Application', 'ServerApp', 'JupyterApp'], 'log_level'),
    flag: '--log-level <level>',
    kind: kinds.logLevel,
    fallback: 'info',
    help: 'level of gateway.log'
  },

  // Kernels.
  defaultKernel: {
    ...named(KERNEL_MANAGERS, 'default_kernel_name'),
    flag: '--default-kernel <name>',
    variable: 'TPULAB_DEFAULT_KERNEL',
    kind: kinds.text('the name of a kernelspec'),
    fallback: null,
    fallbackText: 'a TPULab environment, else python3',
    help: 'kernelspec to start if the client names none'
  },
  clientEnvs: {
    ...named(['Bridge'], 'client_envs'),
    kind: kinds.list('the name of a variable', item => (/^[A-Za-z_]\w*$/.test(item) ? item : kinds.INVALID)),
    fallback: [],
    help: 'variables that a request may set for the kernel it starts, in addition to KERNEL_*'
  },
  iopubQueue: {
    ...named(['Bridge'], 'iopub_queue'),
    kind: kinds.text('unbounded or block', given => given === 'unbounded' || given === 'block'),
    fallback: null,
    fallbackText: 'what the kernelspec says, else unbounded',
    help: "what a kernel does when it prints faster than it is read: queue without limit, or wait (kernels started by TPULab's launcher)"
  },
  iopubAlarmBytes: {
    ...named(['Bridge'], 'iopub_alarm_bytes'),
    kind: kinds.bytes(0),
    fallback: 256 * MIB,
    help: 'queued output in bytes at which the user is warned, and again each time it doubles; 0: never'
  },
  cullIdleTimeoutS: {
    ...named(CULLERS, 'cull_idle_timeout'),
    kind: kinds.number({ what: 'seconds', min: 0, max: MAX_TIMER_S, whole: false }),
    fallback: CULLING_DEFAULTS.idleTimeoutS,
    help: 'seconds without a message after which an idle kernel is shut down; 0: never'
  },
  cullIntervalS: {
    ...named(CULLERS, 'cull_interval'),
    kind: kinds.number({ what: 'seconds', min: 1, max: MAX_TIMER_S, whole: false }),
    fallback: CULLING_DEFAULTS.intervalS,
    help: 'seconds between checks for idle kernels'
  },
  cullConnected: {
    ...named(CULLERS, 'cull_connected'),
    kind: kinds.truth,
    fallback: CULLING_DEFAULTS.connected,
    help: 'shut down idle kernels even if clients are connected'
  },
  shutdownWaitS: {
    ...named(['KernelManager', 'AsyncKernelManager', 'ServerKernelManager'], 'shutdown_wait_time'),
    variable: 'TPULAB_SHUTDOWN_WAIT',
    kind: kinds.number({ what: 'seconds', min: 0, max: 3600, whole: false }),
    fallback: 5,
    help: 'seconds a kernel has to shut down before it is killed; 0: killed at once'
  },
  restartLimit: {
    ...named(['KernelRestarter', 'AsyncIOLoopKernelRestarter'], 'restart_limit'),
    kind: kinds.number({ what: 'a count', min: 0, max: 1000, whole: true }),
    fallback: 5,
    help: 'how many times in a row a crashing kernel is restarted'
  },
  spareKeeper: {
    ...named(['Bridge'], 'spare_keeper'),
    kind: kinds.truth,
    fallback: true,
    help: 'keep a process ready so that the next kernel starts sooner; takes about 50 MB'
  },

  // Limits and time-outs of clients.
  maxBodyBytes: {
    ...named(['ServerApp'], 'max_body_size'),
    kind: kinds.bytes(1024),
    fallback: 4 * MIB,
    help: 'maximum size of a REST request body in bytes'
  },
  maxMessageBytes: {
    ...named(['Bridge'], 'max_message_bytes'),
    kind: kinds.bytes(MIB, 2 ** 31 - 1),
    fallback: 256 * MIB,
    help: "maximum size of a client's WebSocket message in bytes, widget buffers included"
  },
  maxHeaderBytes: {
    ...named(['Bridge'], 'max_header_bytes'),
    kind: kinds.bytes(4096, MIB),
    fallback: HTTP_LIMITS.headerBytes,
    help: 'maximum size of request line and headers in bytes'
  },
  maxSockets: {
    ...named(['Bridge'], 'max_sockets'),
    kind: kinds.number({ what: 'a count', min: 1, max: 100_000, whole: true }),
    fallback: 1024,
    help: 'maximum number of open WebSockets'
  },
  authFailuresPerMinute: {
    ...named(['Bridge'], 'auth_failures_per_minute'),
    kind: kinds.number({ what: 'a count', min: 1, max: MAX_INT, whole: true }),
    fallback: ATTEMPT_LIMITS.perWindow,
    help: 'requests without a valid token per address and minute before the server answers 429'
  },
  unsentBytes: {
    ...named(['Bridge'], 'unsent_bytes'),
    kind: kinds.bytes(MIB),
    fallback: UNSENT_LIMIT_BYTES,
    help: 'memory in bytes for output queued for all slow clients together'
  },
  heldBytes: {
    ...named(['Bridge'], 'held_bytes'),
    kind: kinds.bytes(MIB),
    fallback: QUEUE_LIMITS.bytes,
    help: 'memory in bytes for requests held while their kernel is unreachable'
  },
  subshellLeaseS: {
    ...named(['Bridge'], 'subshell_lease'),
    kind: kinds.number({ what: 'seconds', min: 1, max: MAX_TIMER_S, whole: false }),
    fallback: LEASE_TIMES.subshellMs / 1000,
    help: 'seconds to keep the subshells of a disconnected client'
  },
  debuggerLeaseS: {
    ...named(['Bridge'], 'debugger_lease'),
    kind: kinds.number({ what: 'seconds', min: 1, max: MAX_TIMER_S, whole: false }),
    fallback: LEASE_TIMES.debuggerMs / 1000,
    help: 'seconds to keep the debugger attached for a disconnected client'
  },
  pingIntervalS: {
    ...named(['ServerApp'], 'websocket_ping_interval'),
    kind: kinds.number({ what: 'seconds', min: 1, max: 3600, whole: false }),
    fallback: CONFIRMATION_DEFAULTS.heartbeatMs / 1000,
    help: 'seconds between pings on an idle WebSocket'
  },
  pingTimeoutS: {
    ...named(['ServerApp'], 'websocket_ping_timeout'),
    kind: kinds.number({ what: 'seconds', min: 2, max: 86_400, whole: false }),
    fallback: CONFIRMATION_DEFAULTS.silenceMs / 1000,
    help: 'seconds without an answer after which a client counts as disconnected; must exceed the interval'
  },
  backStep: {
    ...named(['Bridge'], 'back_step'),
    kind: kinds.number({ what: 'records', min: 0, max: 1_000_000, whole: true }),
    fallback: CONFIRMATION_DEFAULTS.backStep,
    help: 'records to repeat when a stock client reconnects, before the ones it has not confirmed'
  },

  // Journals.
  journalKernelBytes: {
    ...named(['Journal'], 'kernel_bytes'),
    variable: 'TPULAB_JOURNAL_KERNEL_BYTES',
    kind: kinds.bytes(MIN_KERNEL_BYTES),
    fallback: JOURNAL_LIMITS.kernelBytes,
    help: "size limit of one kernel's journal in bytes; beyond it, the oldest records are deleted"
  },
  journalTotalBytes: {
    ...named(['Journal'], 'total_bytes'),
    variable: 'TPULAB_JOURNAL_TOTAL_BYTES',
    kind: kinds.bytes(MIN_KERNEL_BYTES),
    fallback: JOURNAL_LIMITS.totalBytes,
    help: 'size limit of all journals in bytes; beyond it, journals of ended kernels are deleted first'
  },
  journalRetentionDays: {
    ...named(['Journal'], 'retention_days'),
    variable: 'TPULAB_JOURNAL_RETENTION_DAYS',
    kind: kinds.number({ what: 'days', min: 0, max: 36_500, whole: false }),
    fallback: JOURNAL_LIMITS.retentionMs / 86_400_000,
    help: 'days to keep a journal after its kernel has ended'
  },

  // Devices.
  checkpointOnNotice: {
    ...named(['Bridge'], 'checkpoint_on_notice'),
    kind: kinds.truth,
    fallback: true,
    help: 'ask runs for a checkpoint when the cloud announces that it will preempt or stop this machine'
  },
  notifyCommand: {
    ...named(['Bridge'], 'notify_command'),
    flag: '--notify <command>',
    kind: kinds.text('a command for the shell'),
    fallback: null,
    fallbackText: 'none',
    help: 'shell command to run when a run or a long cell ends or fails, a kernel dies, or a metric becomes NaN (docs/control.md)'
  },
  notifyAfterS: {
    ...named(['Bridge'], 'notify_after'),
    kind: kinds.number({ what: 'seconds', min: 0, max: MAX_TIMER_S, whole: false }),
    fallback: 60,
    help: 'seconds that a cell, or a run that finishes, must have taken for the notify command'
  },
  sampleHz: {
    ...named(['Bridge'], 'sample_hz'),
    kind: kinds.number({ what: 'samples a second', min: 0, max: MAX_SAMPLE_HZ, whole: false }),
    fallback: SAMPLE_HZ,
    help: 'samples of the machine and its chips per second while a page is open; 0: only on request'
  },
  chipTable: {
    ...named(['Bridge'], 'chip_table'),
    flag: '--chip-table <file>',
    kind: kinds.text('the path of a file'),
    fallback: null,
    fallbackText: 'none',
    help: 'JSON file that corrects or extends the table of chips (docs/devices.md)'
  }
} satisfies Record<string, Setting>;

type Table = typeof TABLE;
export type SettingKey = keyof Table;
/** The value of each setting; null if it has no default. */
export type Settings = {
  readonly [K in SettingKey]:
    | (Table[K]['kind'] extends kinds.Kind<infer T> ? T : never)
    | (null extends Table[K]['fallback'] ? null : never);
};

export const SETTINGS: Readonly<Record<SettingKey, Setting>> = TABLE;
export const SETTING_KEYS = Object.keys(TABLE) as SettingKey[];
