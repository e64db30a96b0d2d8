/** The parts of a page that the kernel specs need, over two fake servers, and a bounded wait for a condition. */
import { ServerConnection } from '@jupyterlab/services';
import { Backends } from '../backends/backends.js';
import { BridgeBackend, type IBridgeBackendOptions } from '../backends/bridge-backend.js';
import { JupyterBackend } from '../backends/jupyter-backend.js';
import type { ISessionWaits } from '../kernels/session-client.js';
import type { ISpecWaits } from '../kernels/spec-client.js';
import { FakeJupyterServer } from './fake-jupyter-server.js';

/** A limit that does not expire even on a busy machine; a spec of a hanging server sets a short one. */
export const LONG_MS = 60_000;

/** Limits of this length for the lists of sessions and of kernelspecs. */
export function longTimeouts(): ISessionWaits & ISpecWaits {
  const ms = LONG_MS;
  return {
    firstListMs: ms,
    firstVisitMs: ms,
    bridgeListMs: ms,
    gatewayListMs: ms,
    jupyterListMs: ms,
    oldSessionMs: ms
  };
}

const LIMITS = { probeTimeoutMs: LONG_MS, readTimeoutMs: LONG_MS };

export class Page implements AsyncDisposable {
  readonly backends: Backends;

  constructor(
    readonly jupyter: FakeJupyterServer,
    readonly bridge: FakeJupyterServer,
    options: Partial<IBridgeBackendOptions> = {}
  ) {
    const settings = ServerConnection.makeSettings({
      baseUrl: jupyter.url,
      wsUrl: jupyter.url.replace('http', 'ws'),
      token: jupyter.token,
      appendToken: true
    });
    this.backends = new Backends(
      new JupyterBackend(settings),
      new BridgeBackend({
        jupyter: settings,
        pageHostname: 'localhost',
        longestRetryMs: 20,
        ...LIMITS,
        ...options
      }),
      { remote: LIMITS }
    );
  }

  /** A page whose bridge serves and is known to serve. */
  static async open(options: Partial<IBridgeBackendOptions> = {}): Promise<Page> {
    const jupyter = await FakeJupyterServer.start({ specs: ['python3'] });
    const bridge = await FakeJupyterServer.start({ specs: ['tpulab-jax', 'python3'] });
    jupyter.bridgeAddress = { status: 'ready', url: bridge.url, token: bridge.token, message: null };
    const page = new Page(jupyter, bridge, options);
    page.backends.bridge.start();
    await until(() => page.backends.bridge.state === 'ok');
    return page;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.backends.dispose();
    await this.jupyter[Symbol.asyncDispose]();
    await this.bridge[Symbol.asyncDispose]();
  }
}

/** Waits until a condition holds; the deadline allows for a machine that is busy with other tasks. */
export async function until(condition: () => boolean, deadlineMs = 50_000): Promise<void> {
  const end = performance.now() + deadlineMs;
  while (!condition()) {
    if (performance.now() > end) {
      throw new Error(`Not within ${deadlineMs} ms: ${condition.toString()}`);
    }
    await new Promise(resolve => setTimeout(resolve, 5));
  }
}
