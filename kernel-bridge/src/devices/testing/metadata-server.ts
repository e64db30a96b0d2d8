/** For specs: a metadata server of Compute Engine, with etags and requests that wait for a change. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export class MetadataServer implements AsyncDisposable {
  readonly requests: string[] = [];
  readonly #values = new Map<string, { text: string; version: number }>();
  readonly #waiting = new Set<{ name: string; etag: string; response: ServerResponse }>();
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(values: Readonly<Record<string, string>>): Promise<MetadataServer> {
    const server = createServer();
    const metadata = new MetadataServer(server);
    for (const [name, text] of Object.entries(values)) metadata.set(name, text);
    server.on('request', (request, response) => {
      const url = new URL(request.url ?? '/', 'http://metadata');
      metadata.requests.push(url.pathname + url.search);
      if (request.headers['metadata-flavor'] !== 'Google') response.writeHead(403).end();
      else metadata.#answer(url, response);
    });
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
    return metadata;
  }

  /** `127.0.0.1:PORT`, for `GCE_METADATA_HOST`. */
  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `http://${this.host}`;
  }

  set(name: string, text: string): void {
    this.#values.set(name, { text, version: (this.#values.get(name)?.version ?? 0) + 1 });
    for (const waiting of [...this.#waiting]) {
      if (waiting.name !== name) continue;
      this.#waiting.delete(waiting);
      this.#send(name, waiting.response);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise(resolve => this.#server.close(resolve));
  }

  #answer(url: URL, response: ServerResponse): void {
    const name = url.pathname.replace('/computeMetadata/v1/instance/', '');
    const value = this.#values.get(name);
    if (value === undefined) {
      response.writeHead(404, { 'metadata-flavor': 'Google' }).end();
      return;
    }
    const etag = url.searchParams.get('last_etag');
    if (url.searchParams.get('wait_for_change') === 'true' && etag === String(value.version)) {
      this.#waiting.add({ name, etag, response });
      return;
    }
    this.#send(name, response);
  }

  #send(name: string, response: ServerResponse): void {
    const { text = '', version = 0 } = this.#values.get(name) ?? {};
    response.writeHead(200, { 'metadata-flavor': 'Google', etag: String(version) }).end(text);
  }
}
