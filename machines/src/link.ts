/** The ssh connection of one remote, and the forwarded socket of its gateway. */
import { rm } from 'node:fs/promises';
import type { RemoteSsh } from '@tpulab/protocol';
import type { HostSetup, PreparedHost, RemoteShell, SetupOptions } from './contracts.js';
import { isPlainPath } from '@tpulab/platform/socket-folder.js';
import { script } from './setup/script.js';
import { plainText } from '@tpulab/platform/plain-text.js';
import { RemoteGateway } from './remote-gateway.js';
import { RemoteProblem } from './remote-error.js';
import { type MasterOptions, SshMaster } from './ssh/master.js';
import { forwardRefused } from './ssh/explain.js';
import { shellCommand, SshShell } from './ssh/ssh-shell.js';
import { deadline } from '@tpulab/platform/waiting.js';
import { createInterface } from 'node:readline';
import { SshProcess, viaMaster } from './ssh/ssh-process.js';

/** Time limit for a gateway that was just started and still finds its kernels. */
const READY_MS = 60_000;
const POLL_MS = 100;
/** Length of `sun_path` on Linux without its terminating zero. */
const SOCKET_PATH_BYTES = 107;

export interface LinkOptions extends MasterOptions {
  readonly socketPath: string;
}

export class RemoteLink implements AsyncDisposable {
  readonly shell: RemoteShell;
  #forwarded: string | null = null;
  #relay: TcpRelay | null = null;
  /** Refusals of unix sockets, before the relay was used. */
  #refusals = 0;

  private constructor(
    private readonly master: SshMaster,
    private readonly options: LinkOptions
  ) {
    this.shell = new SshShell({
      program: options.program,
      controlPath: options.controlPath,
      host: options.target.destination,
      preamble: options.target.preamble
    });
  }

  static async open(options: LinkOptions): Promise<RemoteLink> {
    return new RemoteLink(await SshMaster.open(options), options);
  }

  get isOver(): boolean {
    return this.master.isOver;
  }

  /** For programs of this user that use their own terminal or ssh. */
  get ssh(): RemoteSsh {
    const { program, controlPath, target } = this.options;
    return { program, controlPath, destination: target.destination, options: [...target.options] };
  }

  /** Resolves with the reason after ssh has ended. */
  get lost(): Promise<RemoteProblem> {
    return this.master.lost;
  }

  get socketPath(): string {
    return this.options.socketPath;
  }

  /** Makes the host ready and its gateway reachable at `socketPath`; resolves when that gateway serves requests. */
  async prepare(setup: HostSetup, options: SetupOptions): Promise<PreparedHost> {
    const prepared = await setup.prepare(this.shell, options);
    checkSocketPath(prepared.socketPath, this.shell.host);
    const { signal } = options;
    await (this.#relay === null
      ? this.#forward(prepared.socketPath, signal)
      : this.#relayTo(prepared.socketPath, signal));
    const gatewayId = await this.#serving(prepared, options.signal);
    if (options.hostOnly !== undefined) await this.#keepToHost(options.hostOnly, prepared, options.signal);
    return { ...prepared, gatewayId };
  }

  /** @param there socket on the host, or `127.0.0.1:PORT` of the host */
  async #forward(there: string, signal: AbortSignal): Promise<void> {
    const { socketPath } = this.options;
    if (this.#forwarded !== null) await this.master.cancelForward(socketPath, this.#forwarded, signal);
    await this.master.forward(socketPath, there, signal);
    this.#forwarded = there;
  }

  /** Like `#forward`, if sshd forwards only ports. */
  async #relayTo(socketPath: string, signal: AbortSignal): Promise<void> {
    await this.#relay?.[Symbol.asyncDispose]();
    this.#relay = null;
    const { program, controlPath, log } = this.options;
    this.#refusals = this.master.refusals;
    log('sshd does not forward unix sockets: using a port on its loopback interface');
    const relay = await startTcpRelay({ program, controlPath, socketPath, host: this.shell.host, signal });
    this.#relay = relay;
    await this.#forward(`127.0.0.1:${relay.port}`, signal);
  }

  async #keepToHost(hostOnly: boolean, { token }: PreparedHost, signal: AbortSignal): Promise<void> {
    const { socketPath } = this.options;
    const path = '/bridge/v1/devices/host-only';
    using gateway = new RemoteGateway({ socketPath, token });
    const { status } = await gateway.json(path, { put: { hostOnly }, signal });
    if (status === 200) return;
    throw new RemoteProblem(
      'remote_bridge_failed',
      `The server on ${this.shell.host} cannot keep kernels to the chips of its host (it answers ${status}); it is of an older version.`
    );
  }

  /** A new gateway answers before it has found its kernels; it counts as ready only afterwards. */
  async #serving({ token, socketPath: there }: PreparedHost, signal: AbortSignal): Promise<string> {
    const deadline = performance.now() + READY_MS;
    using gateway = new RemoteGateway({ socketPath: this.options.socketPath, token });
    for (;;) {
      signal.throwIfAborted();
      if (this.isOver) throw await this.lost;
      const health = await gateway
        .json('/bridge/v1/health', { signal })
        .catch((error: unknown) => error as Error);
      if (!(health instanceof Error) && health.status === 200) {
        const { gatewayId, status } = (health.body ?? {}) as { gatewayId?: unknown; status?: unknown };
        if (typeof gatewayId === 'string' && status === 'ok') return gatewayId;
      }
      if (health instanceof Error && this.master.refusals > this.#refusals) {
        if (this.#relay !== null) throw forwardRefused(this.shell.host);
        await this.#relayTo(there, signal);
        continue;
      }
      if (performance.now() > deadline) {
        const why = health instanceof Error ? health.message : `it answers ${health.status}`;
        throw new RemoteProblem(
          'remote_bridge_failed',
          `The server on ${this.shell.host} was started but does not serve (${why}); see gateway.log there.`
        );
      }
      await new Promise(resolve => setTimeout(resolve, POLL_MS));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#relay?.[Symbol.asyncDispose]();
    await this.master[Symbol.asyncDispose]();
    await rm(this.options.socketPath, { force: true });
  }
}

/**
 * The host chooses the path, and ssh expands `$`, `%` and `~` in its argument on this machine: a path with one of these characters would
 * send a variable of this machine to the host.
 */
export function checkSocketPath(socketPath: string, host: string): void {
  if (isPlainPath(socketPath) && Buffer.byteLength(socketPath) <= SOCKET_PATH_BYTES) return;
  throw new RemoteProblem(
    'remote_forward_failed',
    `${host} reported the server socket ${JSON.stringify(plainText(socketPath, 120))}, which is refused: such a path consists of letters, digits and / _ . @ + - only. Check whether the installation there was modified.`,
    { recovery: 'person' }
  );
}

const START_MS = 30_000;

/**
 * For hosts whose sshd forwards ports but no unix sockets: a relay on the host from a port of its loopback interface to the socket of the
 * gateway. The relay ends with the connection. Other users of the host can reach the port, but the gateway requires its token.
 */
export interface TcpRelay extends AsyncDisposable {
  /** On the loopback interface of the host. */
  readonly port: number;
}

async function startTcpRelay(options: {
  readonly program: string;
  readonly controlPath: string;
  /** Path on the host. */
  readonly socketPath: string;
  readonly host: string;
  readonly signal: AbortSignal;
}): Promise<TcpRelay> {
  const { program, controlPath, socketPath, host, signal } = options;
  const ssh = await SshProcess.start({
    program,
    args: viaMaster(
      controlPath,
      ['-T'],
      shellCommand('exec python3 -c "$1" "$2"', [script('relay.py'), socketPath])
    )
  });
  using within = deadline(START_MS, signal);
  const limit = within.signal;
  const port = await new Promise<number>(resolve => {
    const none = (): void => resolve(0);
    limit.addEventListener('abort', none, { once: true });
    void ssh.ended.then(none);
    createInterface({ input: ssh.child.stdout }).on('line', line => {
      // A start-up file may have printed text before it.
      const [, found] = /^tpulab-port (\d{1,5})$/.exec(line) ?? [];
      if (found !== undefined) resolve(Number(found));
    });
    if (limit.aborted) none();
  });
  if (Number.isInteger(port) && port > 0) return { port, [Symbol.asyncDispose]: () => ssh.end() };
  await ssh.end();
  signal.throwIfAborted();
  throw new RemoteProblem(
    'remote_forward_failed',
    `The sshd of ${host} does not forward unix sockets, and the replacement relay did not start there (${ssh.errors.at(-1) ?? 'no answer'}). Set AllowStreamLocalForwarding to yes in its sshd_config, or install Python 3 there.`
  );
}
