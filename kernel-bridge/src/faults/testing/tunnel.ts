/** A TCP forwarder as a separate process that can be stopped (SIGSTOP), like a tunnel whose network is down. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const PROGRAM = `
const { connect, createServer } = require('node:net');
const to = Number(process.argv[1]);
const server = createServer(client => {
  const far = connect(to, '127.0.0.1');
  client.setNoDelay(true);
  far.setNoDelay(true);
  client.pipe(far).pipe(client);
  for (const socket of [client, far]) socket.on('error', () => { client.destroy(); far.destroy(); });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
`;

export class Tunnel implements AsyncDisposable {
  private constructor(
    private readonly child: ChildProcess,
    readonly url: string
  ) {}

  static async to(url: string): Promise<Tunnel> {
    const child = spawn(process.execPath, ['-e', PROGRAM, new URL(url).port], {
      stdio: ['ignore', 'pipe', 'inherit']
    });
    const [port] = (await once(createInterface(child.stdout), 'line', {
      signal: AbortSignal.timeout(60_000)
    })) as [string];
    return new Tunnel(child, `http://127.0.0.1:${port}/`);
  }

  freeze(): void {
    this.child.kill('SIGSTOP');
  }

  thaw(): void {
    this.child.kill('SIGCONT');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }
}
