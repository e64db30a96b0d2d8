/** Runs a gateway in this process, with its log and its entry in the list of running gateways. */
import { chmodSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { destination, type Level, type Logger, multistream, pino } from 'pino';
import type { Settings } from '../config/settings.js';
import { gatewayOptions, stateDirOf } from '../gateway/gateway-settings.js';
import { type Gateway, startGateway } from '../gateway/gateway.js';
import { enterGateway } from '../gateway/running-gateways.js';
import { prepareStateFolder } from '../gateway/state-folder.js';
import { ServeError } from '@tpulab/platform/errors.js';
import { aborted } from '@tpulab/platform/waiting.js';
import { SECRET_FIELDS } from './output.js';

const LOST = 'Another server has taken the state folder over while this one stood still';

/** Runs a gateway until SIGTERM or SIGINT. @param onReady called when it serves requests */
export async function serveUntilStopped(
  settings: Settings,
  onReady: (gateway: Gateway) => void | Promise<void>
): Promise<void> {
  const options = gatewayOptions(settings);
  const stateDir = stateDirOf(settings);
  await prepareStateFolder(stateDir);
  const log = openLog(stateDir, settings.logLevel as Level);
  using _guard = guardProcess(stateDir, log, () => process.exit(1));
  const pausedBecause = isCrashLoop(stateDir)
    ? 'The server ended unexpectedly three times within a minute, so it started without its remotes. gateway.log in the state folder says why; connect again when that is settled.'
    : null;
  if (pausedBecause !== null) log.error(pausedBecause);
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stopping.abort(signal));
  let gateway: Gateway | null = null;
  let entry: AsyncDisposable | null = null;
  try {
    gateway = await startGateway({ ...options, log, ...(pausedBecause !== null && { pausedBecause }) });
    await gateway.ready;
    entry = await enterGateway(stateDir, gateway.gatewayId).catch((error: unknown) => {
      log.warn({ err: error }, 'commands find this server by --state-dir only');
      return null;
    });
    void gateway.lost.then(() => stopping.abort(LOST));
    await onReady(gateway);
    await aborted(stopping.signal);
    log.info({ signal: String(stopping.signal.reason) }, 'server stopping; kernels keep running');
    if (stopping.signal.reason === LOST) throw new ServeError('state_dir_in_use', `${LOST}: ${stateDir}.`);
  } finally {
    await entry?.[Symbol.asyncDispose]();
    await gateway?.[Symbol.asyncDispose]();
  }
}

/** At a start, a log larger than this becomes gateway.log.1, which replaces an older one. */
const ROTATE_BYTES = 16 * 1024 * 1024;

/** The server's log: all lines in `<state>/gateway.log`, errors on stderr too. */
export function openLog(stateDir: string, level: Level): Logger {
  const file = path.join(stateDir, 'gateway.log');
  rotate(file);
  // Written synchronously: the lines before a crash matter most.
  const log = destination({ dest: file, mode: 0o600, sync: true });
  // A full disk, which fails the log, must not end the gateway.
  log.on('error', () => undefined);
  chmodSync(file, 0o600);
  return pino(
    { level, redact: { paths: SECRET_FIELDS, censor: '[secret]' }, base: { pid: process.pid } },
    multistream([
      { stream: log, level },
      { stream: process.stderr, level: 'error' }
    ])
  );
}

function rotate(file: string): void {
  try {
    if (statSync(file).size > ROTATE_BYTES) renameSync(file, `${file}.1`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/*
 * The last guard for uncaught errors. The failed operation has ended; the gateway continues, because kernels and their outputs are
 * in other processes. It ends only after repeated faults, and records the time: after the third end in a minute the next gateway
 * starts without its remotes, whose answers are the most likely cause.
 */

/** Faults per minute that a gateway survives. */
const MAX_FAULTS = 10;
const ENDS = 3;
const WITHIN_MS = 60_000;
/** Ends older than this do not count as a loop. */
const RECENT_MS = 10 * 60_000;

/** @param end called if the gateway cannot continue */
export function guardProcess(stateDir: string, log: Logger, end: () => void): Disposable {
  const faults: number[] = [];
  const onFault = (err: unknown, origin: string): void => {
    log.error({ err, origin }, 'an unexpected error was caught; the server continues');
    faults.push(performance.now());
    if (faults.length > MAX_FAULTS) faults.shift();
    const [oldest = 0] = faults;
    if (faults.length < MAX_FAULTS || performance.now() - oldest > WITHIN_MS) return;
    log.fatal({ err, origin }, 'server failed; kernels keep running, and the next server finds them');
    noteEnd(stateDir);
    end();
  };
  const onRejection = (err: unknown): void => onFault(err, 'unhandledRejection');
  process.on('uncaughtException', onFault).on('unhandledRejection', onRejection);
  return {
    [Symbol.dispose]: () =>
      void process.off('uncaughtException', onFault).off('unhandledRejection', onRejection)
  };
}

const fileIn = (stateDir: string): string => path.join(stateDir, 'fatal-ends.json');

function kernelEndsIn(stateDir: string): number[] {
  try {
    const value: unknown = JSON.parse(readFileSync(fileIn(stateDir), 'utf8'));
    return Array.isArray(value) ? value.filter((each): each is number => typeof each === 'number') : [];
  } catch {
    return [];
  }
}

export function noteEnd(stateDir: string, now = Date.now()): void {
  try {
    writeFileSync(fileIn(stateDir), JSON.stringify([...kernelEndsIn(stateDir), now].slice(-ENDS)), {
      mode: 0o600
    });
  } catch {
    // The log contains the error.
  }
}

/** Whether the last gateways of this folder ended in quick succession. */
export function isCrashLoop(stateDir: string, now = Date.now()): boolean {
  const ends = kernelEndsIn(stateDir);
  const [first = 0, last = 0] = [ends[0], ends.at(-1)];
  return ends.length >= ENDS && last - first <= WITHIN_MS && Math.abs(now - last) <= RECENT_MS;
}
