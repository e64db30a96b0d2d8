/** For specs: a gateway in this process, with real keepers, in its own folders. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Logger, pino } from 'pino';
import { type Gateway, type GatewayOptions, startGateway } from '../gateway/gateway.js';
import { ChannelsClient, type ConnectOptions } from './channels-client.js';
import { writeKernelSpecs } from './kernelspecs.js';

export const TOKEN = 'a-token-for-specs';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

export interface RestOptions {
  readonly body?: unknown;
  /** A text body instead of JSON. */
  readonly text?: string;
  readonly token?: string | null;
  readonly headers?: Record<string, string>;
}

export class TemporaryGateway implements AsyncDisposable {
  #running: { readonly folder: string; readonly gateway: Gateway } | null = null;

  static async start(options: Partial<GatewayOptions> = {}): Promise<TemporaryGateway> {
    const bridge = new TemporaryGateway();
    await bridge.begin(options);
    return bridge;
  }

  async begin(options: Partial<GatewayOptions>): Promise<void> {
    const folder =
      options.stateDir === undefined ? await mkdtemp(path.join(tmpdir(), 'tpl-')) : options.stateDir;
    const gateway = await startGateway({
      stateDir: folder,
      rootDir: folder,
      token: TOKEN,
      envDir: path.join(folder, 'no-environments'),
      env: { ...process.env, JUPYTER_PATH: writeKernelSpecs(folder) },
      log: silent(),
      ...options
    });
    this.#running = { folder, gateway };
  }

  get folder(): string {
    return this.#begun.folder;
  }

  get gateway(): Gateway {
    return this.#begun.gateway;
  }

  get #begun() {
    if (this.#running === null) throw new Error('this gateway has not been started yet');
    return this.#running;
  }

  get url(): string {
    return this.gateway.url;
  }

  async rest(method: string, target: string, options: RestOptions = {}): Promise<Answer> {
    const { body, text, token = TOKEN, headers = {} } = options;
    const sent = text ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await fetch(this.url.replace(/\/$/, '') + target, {
      method,
      headers: { ...(token === null ? {} : { authorization: `token ${token}` }), ...headers },
      ...(sent === undefined ? {} : { body: sent })
    });
    const answer = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') === true;
    return {
      status: response.status,
      headers: response.headers,
      body: isJson && answer !== '' ? JSON.parse(answer) : answer
    };
  }

  async startKernel(body: object = { name: 'python3' }): Promise<string> {
    const answer = await this.rest('POST', '/api/kernels', { body });
    if (answer.status !== 201) throw new Error(`no kernel: ${JSON.stringify(answer.body)}`);
    return (answer.body as { id: string }).id;
  }

  connect(kernelId: string, options: Partial<ConnectOptions> = {}): Promise<ChannelsClient> {
    return ChannelsClient.connect({ url: this.url, token: TOKEN, kernelId, ...options });
  }

  /** Also ends the kernels. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.gateway.registry.list().map(kernel => this.gateway.registry.remove(kernel.id)));
    await this.gateway[Symbol.asyncDispose]();
    // A keeper that is ending may still write.
    await rm(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

export function silent(): Logger {
  return pino({ level: 'silent' });
}
