/** A gateway in this process, with its log and its entry among those that run. */
import type { Level } from 'pino';
import type { Settings } from '../config/settings.js';
import { type Gateway, startGateway } from '../gateway/gateway.js';
import { gatewayOptions, stateDirOf } from '../gateway/gateway-settings.js';
import { enterGateway } from '../gateway/running-gateways.js';
import { prepareStateFolder } from '../gateway/state-folder.js';
import { ServeError } from '../http/server-errors.js';
import { aborted } from '../platform/waiting.js';
import { guardProcess, isCrashLoop } from './fatal-ends.js';
import { openLog } from './logging.js';

const LOST = 'Another server has taken the state folder over while this one stood still';

/** Runs a gateway until SIGTERM or SIGINT. @param onReady called when it serves */
export async function serveUntilStopped(
  settings: Settings,
  onReady: (gateway: Gateway) => void | Promise<void>
): Promise<void> {
  const options = gatewayOptions(settings);
  const stateDir = stateDirOf(settings);
  await prepareStateFolder(stateDir);
  const log = openLog(stateDir, settings.logLevel as Level);
  using _guard = guardProcess(stateDir, log, () => process.exit(1));
  const heldBack = isCrashLoop(stateDir)
    ? 'The server ended unexpectedly three times within a minute, so it started without its remotes. gateway.log in the state folder says why; connect again when that is settled.'
    : null;
  if (heldBack !== null) log.error(heldBack);
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stopping.abort(signal));
  let gateway: Gateway | null = null;
  let entry: AsyncDisposable | null = null;
  try {
    gateway = await startGateway({ ...options, log, ...(heldBack !== null && { heldBack }) });
    await gateway.ready;
    entry = await enterGateway(stateDir, gateway.gatewayId).catch((error: unknown) => {
      log.warn({ err: error }, 'commands find this server by --state-dir only');
      return null;
    });
    void gateway.lost.then(() => stopping.abort(LOST));
    await onReady(gateway);
    await aborted(stopping.signal);
    log.info({ signal: String(stopping.signal.reason) }, 'server stopping; kernels go on');
    if (stopping.signal.reason === LOST) throw new ServeError('state_dir_in_use', `${LOST}: ${stateDir}.`);
  } finally {
    await entry?.[Symbol.asyncDispose]();
    await gateway?.[Symbol.asyncDispose]();
  }
}
