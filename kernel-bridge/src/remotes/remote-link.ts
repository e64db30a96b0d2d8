/** The ssh connection of one remote, and the forwarded socket of its gateway. */
import { rm } from 'node:fs/promises';
import type { HostSetup, PreparedHost, RemoteShell, SetupOptions } from './contracts.js';
import { askGateway } from './forward/ask-gateway.js';
import { RemoteProblem } from './remote-error.js';
import { SshMaster } from './ssh/master.js';
import { SshShell } from './ssh/ssh-shell.js';
import type { SshTarget } from './ssh/target.js';

/** Of a gateway that has just been started and finds its kernels. */
const READY_MS = 60_000;
const LOOK_MS = 100;

export interface LinkOptions {
  readonly program: string;
  readonly target: SshTarget;
  readonly controlPath: string;
  readonly socketPath: string;
  readonly askpass: Readonly<Record<string, string>> | null;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export class RemoteLink implements AsyncDisposable {
  readonly shell: RemoteShell;
  readonly #master: SshMaster;
  readonly #options: LinkOptions;
  #forwarded: string | null = null;

  private constructor(master: SshMaster, options: LinkOptions) {
    this.#master = master;
    this.#options = options;
    this.shell = new SshShell({
      program: options.program,
      controlPath: options.controlPath,
      host: options.target.destination
    });
  }

  static async open(options: LinkOptions): Promise<RemoteLink> {
    return new RemoteLink(await SshMaster.open(options), options);
  }

  get isOver(): boolean {
    return this.#master.isOver;
  }

  /** Resolves with the reason when ssh has ended. */
  get lost(): Promise<RemoteProblem> {
    return this.#master.lost;
  }

  get socketPath(): string {
    return this.#options.socketPath;
  }

  /** Makes the host ready and its gateway reachable at `socketPath`; resolves when that gateway serves. */
  async prepare(setup: HostSetup, options: SetupOptions): Promise<PreparedHost> {
    const prepared = await setup.prepare(this.shell, options);
    const { socketPath } = this.#options;
    if (this.#forwarded !== null) {
      await this.#master.cancelForward(socketPath, this.#forwarded, options.signal);
    }
    await this.#master.forward(socketPath, prepared.socketPath, options.signal);
    this.#forwarded = prepared.socketPath;
    const gatewayId = await this.#serving(prepared, options.signal);
    return { ...prepared, gatewayId };
  }

  /** A new gateway answers before it has found its kernels; it counts when it has. */
  async #serving({ token }: PreparedHost, signal: AbortSignal): Promise<string> {
    const deadline = performance.now() + READY_MS;
    for (;;) {
      signal.throwIfAborted();
      if (this.isOver) throw await this.lost;
      const { socketPath } = this.#options;
      const health = await askGateway({ socketPath, token, path: '/bridge/v1/health', signal }).catch(
        (error: unknown) => error as Error
      );
      if (!(health instanceof Error) && health.status === 200) {
        const { gatewayId, status } = health.body as { gatewayId?: unknown; status?: unknown };
        if (typeof gatewayId === 'string' && status === 'ok') return gatewayId;
      }
      if (performance.now() > deadline) {
        const why = health instanceof Error ? health.message : `it answers ${health.status}`;
        throw new RemoteProblem(
          'remote_bridge_failed',
          `The gateway on ${this.shell.host} was started but does not serve (${why}); its gateway.log there says more.`
        );
      }
      await new Promise(resolve => setTimeout(resolve, LOOK_MS));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#master[Symbol.asyncDispose]();
    await rm(this.#options.socketPath, { force: true });
  }
}
