/** A TCP proxy on 127.0.0.1 that can be broken: its connections are cut and new ones refused, as by a lost network. */
import { connect, createServer, type Server, type Socket } from 'node:net';

export class BreakableProxy implements AsyncDisposable {
  /** Listens on a free port; `target` may begin to listen later. */
  static async start(target: { readonly port: number }): Promise<BreakableProxy> {
    const proxy = new BreakableProxy(target.port);
    proxy.#port = await proxy.#listen(0);
    return proxy;
  }

  readonly #targetPort: number;
  readonly #sockets = new Set<Socket>();
  #server: Server | null = null;
  #port = 0;

  private constructor(targetPort: number) {
    this.#targetPort = targetPort;
  }

  get port(): number {
    return this.#port;
  }

  /** Breaks the connection for at least `outageMs` and until `meanwhile` has completed, then restores it. */
  async outage(outageMs: number, meanwhile: () => Promise<void>): Promise<void> {
    await this.#close();
    await Promise.all([meanwhile(), new Promise(resolve => setTimeout(resolve, outageMs))]);
    await this.#listen(this.#port);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }

  #listen(port: number): Promise<number> {
    const server = createServer(socket => this.#join(socket));
    this.#server = server;
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, '127.0.0.1', () => {
        const address = server.address();
        if (address !== null && typeof address === 'object') resolve(address.port);
        else reject(new Error('The proxy has no port.'));
      });
    });
  }

  #join(client: Socket): void {
    const target = connect(this.#targetPort, '127.0.0.1');
    for (const [one, other] of [
      [client, target],
      [target, client]
    ] as const) {
      this.#sockets.add(one);
      one.setNoDelay(true);
      one.pipe(other);
      // An error of one side ends both; `close` follows it.
      one.on('error', () => undefined);
      one.on('close', () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
  }

  async #close(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (!server) return;
    const closed = new Promise(resolve => server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}
