/** An HTTP proxy on this machine, through which a stand-in VM reaches others: it offers no way to reach the VM. */
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { request } from 'node:http';

export class OutboundProxy implements AsyncDisposable {
  readonly #sockets = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    readonly url: string
  ) {
    server.on('connection', socket => {
      this.#sockets.add(socket);
      socket.on('error', () => socket.destroy()).on('close', () => this.#sockets.delete(socket));
    });
  }

  static async listen(address: string): Promise<OutboundProxy> {
    const server = createServer((incoming, answer) => {
      const far = request(
        incoming.url ?? '',
        { method: incoming.method, headers: incoming.headers },
        found => {
          answer.writeHead(found.statusCode ?? 502, found.headers);
          found.pipe(answer);
        }
      );
      far.on('error', () => answer.writeHead(502).end());
      incoming.pipe(far);
    });
    server.on('connect', (incoming, client, head) => {
      const { hostname, port } = new URL(`http://${incoming.url ?? ''}`);
      const far = connect(Number(port || 443), hostname, () => {
        client.write('HTTP/1.1 200 Connection established\r\n\r\n');
        far.write(head);
        far.pipe(client).pipe(far);
      });
      far.on('error', () => client.destroy());
      client.on('error', () => far.destroy());
      client.on('close', () => far.destroy());
    });
    await new Promise<void>(resolve => server.listen(0, address, resolve));
    return new OutboundProxy(server, `http://${address}:${(server.address() as AddressInfo).port}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise(resolve => this.server.close(resolve));
  }
}
