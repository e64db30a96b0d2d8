/**
 * An example of a machine that is not reached by ssh, described in docs/new-machine.md: a command in front of every program
 * starts it there, such as `kubectl exec -i POD --`, `docker exec -i NAME` or `srun --jobid=N --overlap`.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import type { Machine, RemoteShell, ShellOptions, ShellResult } from '../machine.js';
import { RemoteProblem } from '../remote-error.js';

/** Copies between its standard streams and a unix socket. */
const RELAY = `import os, socket, sys, threading
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
def send():
    while data := os.read(0, 65536): link.sendall(data)
    link.shutdown(socket.SHUT_WR)
threading.Thread(target=send, daemon=True).start()
while data := link.recv(65536): os.write(1, data)`;
const RECEIVE = 'mkdir -p "$(dirname "$1")" && cat > "$1.part" && mv "$1.part" "$1"';
/** Ends with its standard input, so that it lives as long as the connection. */
const STAY = 'echo up; exec cat >/dev/null';

export class CommandMachine implements Machine {
  readonly ssh = null;
  readonly lost: Promise<RemoteProblem>;
  readonly shell: RemoteShell;
  #server: Server | null = null;
  readonly #clients = new Set<Socket>();

  private constructor(
    private readonly command: readonly [string, ...string[]],
    readonly session: ChildProcessWithoutNullStreams,
    readonly socketPath: string
  ) {
    const host = command.join(' ');
    this.lost = once(session, 'close').then(() => new RemoteProblem('remote_lost', `${host} has ended.`));
    this.shell = { host, run: this.#run, upload: this.#upload };
  }

  static async open(command: readonly [string, ...string[]], socketPath: string): Promise<CommandMachine> {
    const [program, ...args] = command;
    const machine = new CommandMachine(command, spawn(program, [...args, 'sh', '-c', STAY]), socketPath);
    const up = once(createInterface({ input: machine.session.stdout }), 'line').then(() => null);
    const problem = await Promise.race([up, machine.lost]);
    if (problem !== null) throw problem;
    return machine;
  }

  get isOver(): boolean {
    return this.session.exitCode !== null || this.session.signalCode !== null;
  }

  async forward(there: string): Promise<void> {
    await this.#close();
    this.#server = createServer(client => {
      this.#clients.add(client.on('error', () => client.destroy()));
      const relay = this.#start(['python3', '-c', RELAY, there]);
      client.pipe(relay.stdin);
      relay.stdout.pipe(client);
      client.on('close', () => void (this.#clients.delete(client), relay.kill()));
    }).listen(this.socketPath);
    await once(this.#server, 'listening');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
    this.session.kill();
    await this.lost;
  }

  readonly #run = async (
    script: string,
    args: readonly string[],
    options: ShellOptions
  ): Promise<ShellResult> => {
    const { signal, timeoutMs, stdin = '', onLine } = options;
    const child = this.#start(
      ['sh', '-c', script, 'sh', ...args],
      AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    );
    if (onLine !== undefined) createInterface({ input: child.stdout }).on('line', onLine);
    child.stdin.end(stdin);
    const [stdout, stderr] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close')
    ]);
    return { code: child.exitCode ?? 255, stdout, stderr };
  };

  readonly #upload: RemoteShell['upload'] = async (local, remote, { signal }) => {
    const child = this.#start(['sh', '-c', RECEIVE, 'sh', remote], signal);
    createReadStream(local).pipe(child.stdin);
    const [errors] = await Promise.all([text(child.stderr), once(child, 'close')]);
    if (child.exitCode !== 0)
      throw new RemoteProblem('remote_upload_failed', `${remote} could not be written: ${errors}`);
  };

  #start(program: readonly string[], signal?: AbortSignal): ChildProcessWithoutNullStreams {
    const [first, ...args] = this.command;
    const child = spawn(first, [...args, ...program], { signal });
    // Its end is reported by `close`.
    child.on('error', () => undefined).stdin.on('error', () => undefined);
    return child;
  }

  async #close(): Promise<void> {
    for (const client of this.#clients) client.destroy();
    if (this.#server !== null) await new Promise(resolve => this.#server?.close(resolve));
    await rm(this.socketPath, { force: true });
  }
}
