/** What a setting of `tpulab serve` is, and which there are. */
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
  readonly spareKeeper: boolean;
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
  readonly backStep: number;
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

export type SettingTable = { readonly [K in SettingKey]: Setting<NonNullable<Settings[K]>> };

export const MIB = 1024 * 1024;
/** Timers of Node hold 31 bits of milliseconds. */
export const MAX_TIMER_S = 2_147_483;

/** The managers of Jupyter that have the settings of kernels. */
export const KERNEL_MANAGERS = [
  'MappingKernelManager',
  'AsyncMappingKernelManager',
  'MultiKernelManager',
  'AsyncMultiKernelManager'
];

export function named(
  sections: readonly string[],
  trait: string
): { name: string; aliases: readonly string[] } {
  const [name = '', ...aliases] = sections.map(section => `${section}.${trait}`);
  return { name, aliases };
}
