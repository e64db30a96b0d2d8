/** Makes a machine ready, and its gateway reachable on a socket of this computer. */
import { isPlainPath } from '@tpulab/platform/socket-folder.js';
import { plainText } from '@tpulab/platform/plain-text.js';
import type { HostSetup, Machine, PreparedHost, SetupOptions } from './machine.js';
import { RemoteGateway } from './remote-gateway.js';
import { RemoteProblem } from './remote-error.js';

/** Time limit for a gateway that was just started and still finds its kernels. */
const READY_MS = 60_000;
const POLL_MS = 100;
/** Length of `sun_path` on Linux without its terminating zero. */
const SOCKET_PATH_BYTES = 107;

/** Resolves when the gateway there serves requests at `machine.socketPath`. */
export async function prepareMachine(
  machine: Machine,
  setup: HostSetup,
  options: SetupOptions
): Promise<PreparedHost> {
  const prepared = await setup.prepare(machine.shell, options);
  checkSocketPath(prepared.socketPath, machine.shell.host);
  await machine.forward(prepared.socketPath, options.signal);
  using gateway = new RemoteGateway({ socketPath: machine.socketPath, token: prepared.token });
  const gatewayId = await serving(machine, gateway, prepared.socketPath, options.signal);
  if (options.hostOnly !== undefined)
    await restrictToHost(machine, gateway, options.hostOnly, options.signal);
  return { ...prepared, gatewayId };
}

async function restrictToHost(
  { shell }: Machine,
  gateway: RemoteGateway,
  hostOnly: boolean,
  signal: AbortSignal
): Promise<void> {
  const { status } = await gateway.json('/bridge/v1/devices/host-only', { put: { hostOnly }, signal });
  if (status === 200) return;
  throw new RemoteProblem(
    'remote_bridge_failed',
    `The server on ${shell.host} cannot keep kernels to the chips of its host (it answers ${status}); it is of an older version.`
  );
}

/** A new gateway answers before it has found its kernels; it counts as ready only afterwards. */
async function serving(
  machine: Machine,
  gateway: RemoteGateway,
  there: string,
  signal: AbortSignal
): Promise<string> {
  const deadline = performance.now() + READY_MS;
  for (;;) {
    signal.throwIfAborted();
    if (machine.isOver) throw await machine.lost;
    const health = await gateway
      .json('/bridge/v1/health', { signal })
      .catch((error: unknown) => error as Error);
    if (!(health instanceof Error) && health.status === 200) {
      const { gatewayId, status } = (health.body ?? {}) as { gatewayId?: unknown; status?: unknown };
      if (typeof gatewayId === 'string' && status === 'ok') return gatewayId;
    }
    if (health instanceof Error && (await machine.reroute?.(there, signal)) === true) continue;
    if (performance.now() > deadline) {
      const why = health instanceof Error ? health.message : `it answers ${health.status}`;
      throw new RemoteProblem(
        'remote_bridge_failed',
        `The server on ${machine.shell.host} was started but does not serve (${why}); see gateway.log there.`
      );
    }
    await new Promise(resolve => setTimeout(resolve, POLL_MS));
  }
}

/**
 * The host chooses the path, and ssh expands `$`, `%` and `~` in its argument on this machine: a path with one of these
 * characters would send a variable of this machine to the host.
 */
export function checkSocketPath(socketPath: string, host: string): void {
  if (isPlainPath(socketPath) && Buffer.byteLength(socketPath) <= SOCKET_PATH_BYTES) return;
  throw new RemoteProblem(
    'remote_forward_failed',
    `${host} reported the server socket ${JSON.stringify(plainText(socketPath, 120))}, which is refused: such a path consists of letters, digits and / _ . @ + - only. Check whether the installation there was modified.`,
    { recovery: 'person' }
  );
}
