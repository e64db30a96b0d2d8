/**
 * A Jupyter server over real HTTP and WebSocket, without kernels: REST state in memory, sockets that open and stay
 * silent. It can be the page's own server or the bridge, and can fail as real servers do.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Remote } from '@tpulab/protocol';
import { type WebSocket, WebSocketServer } from 'ws';

interface IKernel {
  id: string;
  name: string;
  execution_state: string;
  last_activity: string;
  connections: number;
}

interface ISession {
  id: string;
  path: string;
  type: string;
  name: string;
  kernel: IKernel;
}

/** `hang`: accepts and never answers. `stall`: sends the headers and no body. `html`: a login page. */
export type Fault = 'hang' | 'stall' | 'html' | 'unavailable' | 'wrongToken' | null;

interface IFakeOptions {
  specs: readonly string[];
  token?: string;
  defaultSpec?: string;
}

export class FakeJupyterServer implements AsyncDisposable {
  readonly token: string;
  readonly kernels = new Map<string, IKernel>();
  readonly sessions = new Map<string, ISession>();
  readonly sockets = new Set<WebSocket>();
  /** Method and path of each request, in order; for sockets `WS path`. */
  readonly requests: string[] = [];
  /** Paths of the requests for remotes. */
  readonly requested: string[] = [];
  /** Bodies of these requests. */
  readonly bodies: Record<string, unknown>[] = [];
  /** Headers of the last request. */
  lastHeaders: IncomingMessage['headers'] = {};
  /** Answer of `GET tpulab/bridge`; null means that the route does not exist. */
  bridgeAddress: {
    status: string;
    url: string | null;
    token: string | null;
    proofKey?: string;
    message: string | null;
  } | null = null;
  /** Its list of remotes; null: it has no such route. */
  remotes: Remote[] | null = null;
  /** Servers that it passes on under `/machines/NAME/`; for other names the answer is 503. */
  readonly mounts = new Map<string, FakeJupyterServer>();
  fault: Fault = null;
  /** With this key it proves that it is the bridge; null: the identity request gets no proof. */
  proofKey: string | null = null;
  /** Tokens received in a header or in the address of a socket. */
  readonly tokens = new Set<string>();
  /** Faults for paths that contain the key, for example `/api/sessions`. */
  readonly faultAt = new Map<string, Fault>();
  /** Called before a request is answered; a returned promise is awaited. */
  beforeAnswer: ((method: string, path: string) => Promise<void> | void) | null = null;

  private constructor(readonly options: IFakeOptions) {
    this.token = options.token ?? randomUUID();
    this._server = createServer((request, response) => {
      this.answer(request, response).catch((error: unknown) => {
        // A client that gives up in the middle of a request needs no answer.
        if (request.complete) {
          throw error;
        }
      });
    });
    this._webSockets = new WebSocketServer({ noServer: true });
    this._server.on('upgrade', (request, socket, head) => {
      // The client may have disconnected before it is answered.
      socket.on('error', () => undefined);
      const url = new URL(request.url ?? '/', 'http://x');
      this.requests.push(`WS ${url.pathname}`);
      this.tokens.add(`token ${url.searchParams.get('token') ?? ''}`);
      if (url.searchParams.get('token') !== this.token || this.fault !== null) {
        socket.end('HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n');
        return;
      }
      this._webSockets.handleUpgrade(request, socket, head, webSocket => {
        this.sockets.add(webSocket);
        this._paths.set(webSocket, url.pathname);
        webSocket.on('close', () => this.sockets.delete(webSocket));
      });
    });
  }

  static async start(options: IFakeOptions, port = 0): Promise<FakeJupyterServer> {
    const fake = new FakeJupyterServer(options);
    await new Promise<void>((resolve, reject) => {
      fake._server.once('error', reject);
      fake._server.listen(port, '127.0.0.1', resolve);
    });
    return fake;
  }

  get port(): number {
    return (this._server.address() as AddressInfo).port;
  }
  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  count(request: string): number {
    return this.requests.filter(item => item === request).length;
  }

  addKernel(name: string): IKernel {
    const kernel = {
      id: randomUUID(),
      name,
      execution_state: 'idle',
      last_activity: new Date(0).toISOString(),
      connections: 0
    };
    this.kernels.set(kernel.id, kernel);
    return kernel;
  }

  addSession(path: string, kernelName: string): ISession {
    const session = {
      id: randomUUID(),
      path,
      type: 'notebook',
      name: path,
      kernel: this.addKernel(kernelName)
    };
    this.sessions.set(session.id, session);
    return session;
  }

  socketsOf(kernelId: string): WebSocket[] {
    return [...this.sockets].filter(socket => this._paths.get(socket)?.includes(kernelId));
  }

  /** Cuts all sockets as a killed server does. */
  cutSockets(): void {
    this.sockets.forEach(socket => socket.terminate());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cutSockets();
    this._server.closeAllConnections();
    await new Promise<void>(resolve => this._server.close(() => resolve()));
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://x');
    const path = decodeURIComponent(url.pathname);
    const method = request.method ?? 'GET';
    this.requests.push(`${method} ${path}`);
    this.lastHeaders = request.headers;
    const body = await readBody(request);
    await this.beforeAnswer?.(method, path);
    const fault = this.fault ?? [...this.faultAt].find(([part]) => path.includes(part))?.[1] ?? null;
    if (fault === 'hang') {
      return;
    }
    if (fault === 'stall') {
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 100 }).write('{');
      return;
    }
    if (fault === 'html') {
      response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>Log in</title>');
      return;
    }
    if (fault === 'unavailable') {
      send(response, 503, { message: 'starting', reason: null, code: 'starting' });
      return;
    }
    if (this.proofKey !== null && url.pathname === '/bridge/v1/identity') {
      const challenge = url.searchParams.get('challenge') ?? '';
      send(response, 200, { proof: createHmac('sha256', this.proofKey).update(challenge).digest('hex') });
      return;
    }
    this.tokens.add(request.headers.authorization ?? 'none');
    if (fault === 'wrongToken' || request.headers.authorization !== `token ${this.token}`) {
      send(response, 403, { message: 'Forbidden', reason: null, code: 'auth' });
      return;
    }
    const mounted = /^\/machines\/([^/]+)(\/.*)$/.exec(path);
    if (mounted) {
      const there = this.mounts.get(mounted[1] ?? '');
      if (there === undefined) {
        send(response, 503, { message: 'not connected', reason: null, code: 'remote_unavailable' });
      } else {
        there.requests.push(`${method} ${mounted[2]}`);
        there.route(method, mounted[2] ?? '/', body, response);
      }
      return;
    }
    this.route(method, path, body, response);
  }

  private route(method: string, path: string, body: Record<string, unknown>, response: ServerResponse): void {
    const [, root, kind, id = '', action] = path.split('/');
    if (path === '/tpulab/bridge') {
      send(response, this.bridgeAddress === null ? 404 : 200, this.bridgeAddress ?? {});
      return;
    }
    if (path === '/bridge/v1/health') {
      send(response, 200, { status: 'ok', protocolVersion: 1, gatewayId: 'fake' });
      return;
    }
    if (path.startsWith('/bridge/v1/machines')) {
      const name = path.split('/')[4];
      if (method === 'POST' && name !== undefined && this.remotes) {
        this.requested.push(path);
        this.bodies.push(body);
        send(response, 200, this.remotes.find(remote => remote.name === name) ?? {});
        return;
      }
      send(response, this.remotes === null ? 404 : 200, { remotes: this.remotes });
      return;
    }
    if (root === 'kernelspecs') {
      response
        .writeHead(200, { 'Content-Type': 'image/svg+xml' })
        .end('<svg xmlns="http://www.w3.org/2000/svg"/>');
      return;
    }
    if (kind === 'kernelspecs') {
      send(response, 200, this.specList());
      return;
    }
    if (kind === 'kernels') {
      this.routeKernels(method, id, action, body, response);
      return;
    }
    if (kind === 'sessions') {
      this.routeSessions(method, id, body, response);
      return;
    }
    send(response, 404, { message: 'Not found' });
  }

  private specList(): unknown {
    const kernelspecs = Object.fromEntries(
      this.options.specs.map(name => [
        name,
        {
          name,
          spec: { argv: ['python'], language: 'python', display_name: `Spec ${name}`, metadata: {}, env: {} },
          resources: { 'logo-svg': `/kernelspecs/${name}/logo-svg.svg` }
        }
      ])
    );
    return { default: this.options.defaultSpec ?? this.options.specs[0] ?? '', kernelspecs };
  }

  private routeKernels(
    method: string,
    id: string,
    action: string | undefined,
    body: Record<string, unknown>,
    response: ServerResponse
  ): void {
    if (id === '') {
      const name = typeof body.name === 'string' ? body.name : (this.options.specs[0] ?? '');
      const started = method === 'POST';
      send(response, started ? 201 : 200, started ? this.addKernel(name) : [...this.kernels.values()]);
      return;
    }
    const kernel = this.kernels.get(id);
    if (kernel === undefined) {
      send(response, 404, { message: 'no such kernel' });
      return;
    }
    if (method === 'DELETE') {
      this.kernels.delete(id);
      send(response, 204);
      return;
    }
    if (action === 'interrupt') {
      send(response, 204);
      return;
    }
    send(response, 200, kernel);
  }

  private routeSessions(
    method: string,
    id: string,
    body: Record<string, unknown>,
    response: ServerResponse
  ): void {
    if (id === '' && method === 'GET') {
      send(response, 200, [...this.sessions.values()]);
      return;
    }
    const wanted = (body.kernel ?? {}) as { id?: string; name?: string };
    if (id === '') {
      const existing = [...this.sessions.values()].find(session => session.path === body.path);
      const session = existing ?? this.addSession(String(body.path), wanted.name ?? '');
      if (existing === undefined && wanted.id !== undefined) {
        this.kernels.delete(session.kernel.id);
        session.kernel = this.kernels.get(wanted.id) ?? session.kernel;
      }
      send(response, 201, session);
      return;
    }
    const session = this.sessions.get(id);
    if (session === undefined) {
      send(response, 404, { message: 'no such session' });
      return;
    }
    if (method === 'DELETE') {
      this.sessions.delete(id);
      this.kernels.delete(session.kernel.id);
      send(response, 204);
      return;
    }
    if (method === 'PATCH') {
      session.path = typeof body.path === 'string' ? body.path : session.path;
      session.name = typeof body.name === 'string' ? body.name : session.name;
      if (wanted.id !== undefined || wanted.name !== undefined) {
        this.kernels.delete(session.kernel.id);
        session.kernel = this.kernels.get(wanted.id ?? '') ?? this.addKernel(wanted.name ?? '');
      }
    }
    send(response, 200, session);
  }

  private readonly _paths = new WeakMap<WebSocket, string>();
  private readonly _server: Server;
  private readonly _webSockets: WebSocketServer;
}

function send(response: ServerResponse, status: number, body?: unknown): void {
  response.writeHead(status, { 'Content-Type': 'application/json' });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}

async function readBody(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) {
    chunks.push(chunk as Buffer);
  }
  const text = Buffer.concat(chunks).toString('utf8');
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}
