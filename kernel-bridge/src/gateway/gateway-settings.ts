/** Converts settings to the options of a gateway. Files that settings name are read here. */
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { CONFIRMATION_DEFAULTS } from '../channels/confirmations.js';
import type { GatewayOptions } from './gateway.js';
import { stateFolder } from './state-folder.js';
import { defaultSocketPath } from '../http/unix-listening.js';
import { ConfigError } from '../config/config-file.js';
import { type Settings, SETTINGS } from '../config/settings.js';

/** Jupyter's values for "all addresses". */
const ALL_ADDRESSES = new Set(['', '*']);

export function stateDirOf({ stateDir }: Settings): string {
  return stateFolder(stateDir ?? undefined);
}

/**
 * Variables that the launcher reads in the kernel's environment, which a kernelspec may override. Unset settings add no variable.
 */
function kernelVariables({ iopubQueue, iopubAlarmBytes }: Settings): Pick<GatewayOptions, 'env'> {
  const { fallback, variable } = SETTINGS.iopubAlarmBytes;
  const variables = {
    ...(iopubQueue === null ? {} : { [SETTINGS.iopubQueue.variable]: iopubQueue }),
    // The launcher accepts a plain number; the setting may be "1 GiB".
    ...(iopubAlarmBytes === fallback && process.env[variable] === undefined
      ? {}
      : { [variable]: String(iopubAlarmBytes) })
  };
  return Object.keys(variables).length === 0 ? {} : { env: { ...process.env, ...variables } };
}

/** @throws ConfigError `config_invalid` when the token file cannot be used */
export function gatewayOptions(settings: Settings): Omit<GatewayOptions, 'log'> {
  const stateDir = stateDirOf(settings);
  return {
    stateDir,
    rootDir: path.resolve(settings.rootDir ?? process.cwd()),
    host: hostOf(settings.host),
    port: settings.port,
    unixSocket: socketOf(settings.unixSocket, stateDir),
    baseUrl: settings.baseUrl,
    token: settings.tokenFile === null ? (settings.token ?? undefined) : tokenOf(settings.tokenFile),
    envDir: settings.envDir ?? undefined,
    allowedOrigins: settings.allowedOrigins,
    allowCredentials: settings.allowCredentials,
    allowedHosts: settings.allowedHosts,
    defaultKernel: settings.defaultKernel ?? undefined,
    clientEnvs: settings.clientEnvs,
    ...kernelVariables(settings),
    culling: {
      idleTimeoutS: settings.cullIdleTimeoutS,
      intervalS: settings.cullIntervalS,
      connected: settings.cullConnected
    },
    shutdownWaitMs: Math.round(settings.shutdownWaitS * 1000),
    restartLimit: settings.restartLimit,
    spareKeeper: settings.spareKeeper,
    bodyLimitBytes: settings.maxBodyBytes,
    maxPayloadBytes: settings.maxMessageBytes,
    maxSockets: settings.maxSockets,
    http: { headerBytes: settings.maxHeaderBytes },
    attempts: { perWindow: settings.authFailuresPerMinute },
    unsentLimitBytes: settings.unsentBytes,
    queueLimits: { bytes: settings.heldBytes },
    leases: {
      subshellMs: Math.round(settings.subshellLeaseS * 1000),
      debuggerMs: Math.round(settings.debuggerLeaseS * 1000)
    },
    confirmation: {
      ...CONFIRMATION_DEFAULTS,
      heartbeatMs: Math.round(settings.pingIntervalS * 1000),
      silenceMs: Math.round(settings.pingTimeoutS * 1000),
      backStep: settings.backStep
    },
    sampleHz: settings.sampleHz,
    checkpointOnNotice: settings.checkpointOnNotice,
    notifyCommand: settings.notifyCommand ?? undefined,
    notifyAfterMs: Math.round(settings.notifyAfterS * 1000),
    chipTable: settings.chipTable === null ? undefined : path.resolve(settings.chipTable),
    journal: {
      kernelBytes: settings.journalKernelBytes,
      totalBytes: settings.journalTotalBytes,
      retentionMs: Math.round(settings.journalRetentionDays * 86_400_000)
    }
  };
}

/** The first address of `localhost`: given that, the gateway also listens on the second. */
function hostOf(host: string): string {
  if (ALL_ADDRESSES.has(host)) return '0.0.0.0';
  return host === 'localhost' ? '127.0.0.1' : host;
}

function socketOf(given: Settings['unixSocket'], stateDir: string): string | undefined {
  if (given === null || given === '') return undefined;
  return given === true ? defaultSocketPath(stateDir) : path.resolve(given);
}

function tokenOf(file: string): string {
  let text: string;
  let mode: number;
  try {
    ({ mode } = statSync(file));
    text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    throw new ConfigError('config_invalid', `The token file ${file} cannot be read (${code}).`, {
      cause: error
    });
  }
  if ((mode & 0o077) !== 0) {
    throw new ConfigError(
      'config_invalid',
      `The token file ${file} can be read by others; restrict it with chmod 600.`
    );
  }
  return text;
}
