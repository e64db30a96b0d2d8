/** A computer that is reached by ssh: its shell, and a local socket that leads to a socket there. */
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import type { RemoteSsh } from '@tpulab/protocol';
import { deadline } from '@tpulab/platform/waiting.js';
import type { Machine, RemoteShell } from './machine.js';
import { RemoteProblem } from './remote-error.js';
import { script } from './setup/host-scripts.js';
import { forwardRefused } from './ssh/explain.js';
import { type MasterOptions, SshMaster } from './ssh/master.js';
import { SshProcess, viaMaster } from './ssh/ssh-process.js';
import { shellCommand, SshShell } from './ssh/ssh-shell.js';

interface SshMachineOptions extends MasterOptions {
  readonly socketPath: string;
}

export class SshMachine implements Machine {
  readonly shell: RemoteShell;
  #forwarded: string | null = null;
  #relay: TcpRelay | null = null;
  /** How often sshd had refused unix sockets before the relay was used. */
  #refusals = 0;

  private constructor(
    private readonly master: SshMaster,
    private readonly options: SshMachineOptions
  ) {
    this.shell = new SshShell({
      program: options.program,
      controlPath: options.controlPath,
      host: options.target.destination,
      preamble: options.target.preamble
    });
  }

  /** Resolves after the login. */
  static async open(options: SshMachineOptions): Promise<SshMachine> {
    return new SshMachine(await SshMaster.open(options), options);
  }

  get isOver(): boolean {
    return this.master.isOver;
  }

  get lost(): Promise<RemoteProblem> {
    return this.master.lost;
  }

  get ssh(): RemoteSsh {
    const { program, controlPath, target } = this.options;
    return { program, controlPath, destination: target.destination, options: [...target.options] };
  }

  get socketPath(): string {
    return this.options.socketPath;
  }

  async forward(there: string, signal: AbortSignal): Promise<void> {
    await (this.#relay === null ? this.#forward(there, signal) : this.#relayTo(there, signal));
  }

  /** Switches to a relay, if sshd has refused to forward a unix socket since the last attempt. */
  async reroute(there: string, signal: AbortSignal): Promise<boolean> {
    if (this.master.refusals <= this.#refusals) return false;
    if (this.#relay !== null) throw forwardRefused(this.shell.host);
    await this.#relayTo(there, signal);
    return true;
  }

  /** @param there socket on the host, or `127.0.0.1:PORT` of the host */
  async #forward(there: string, signal: AbortSignal): Promise<void> {
    const { socketPath } = this.options;
    if (this.#forwarded !== null) await this.master.cancelForward(socketPath, this.#forwarded, signal);
    await this.master.forward(socketPath, there, signal);
    this.#forwarded = there;
  }

  /** Like `#forward`, for an sshd that forwards only ports. */
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

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#relay?.[Symbol.asyncDispose]();
    await this.master[Symbol.asyncDispose]();
    await rm(this.options.socketPath, { force: true });
  }
}

const START_MS = 30_000;

/**
 * For hosts whose sshd forwards ports but no unix sockets: a relay on the host, from a port of its loopback interface to
 * the socket of the gateway. The relay ends with the connection. Other users of the host can reach the port, but the
 * gateway requires its token.
 */
interface TcpRelay extends AsyncDisposable {
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
