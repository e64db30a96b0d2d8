/** The kernels REST API of a gateway, with kernelspec names as the page knows them. */
import type { ServerConnection } from '@jupyterlab/services';
import { type Kernel, KernelAPI } from '@jupyterlab/services';
import { BackendError } from '../backends/backend-error.js';
import type { GatewayBackend } from '../backends/gateway-backend.js';
import { RemoteBackend } from '../backends/remote-backend.js';
import type { SessionRoutes } from '../backends/session-routes.js';
import type { Place } from '../backends/spec-names.js';
import { labSpecName, splitSpecName } from '../backends/spec-names.js';

/** How long a start waits for a gateway that is still starting. */
const START_WAIT_MS = 30_000;

/** Waits until kernels can be started there; requests a connection to a disconnected remote. Throws `BackendError`. */
export async function readyToStart(gateway: GatewayBackend): Promise<void> {
  if (gateway instanceof RemoteBackend && gateway.state !== 'ok') gateway.connect();
  await gateway.serving(START_WAIT_MS);
}

export class BridgeKernelClient implements Kernel.IKernelAPIClient {
  readonly serverSettings: ServerConnection.ISettings;

  constructor(
    private readonly gateway: GatewayBackend,
    private readonly routes: SessionRoutes
  ) {
    this.serverSettings = gateway.liveSettings;
    this._client = new KernelAPI.KernelAPIClient({ serverSettings: this.serverSettings });
  }

  async listRunning(): Promise<Kernel.IModel[]> {
    if (this.gateway.state !== 'ok') {
      // It is being monitored already; a request would only add a failure to the browser's console.
      throw new BackendError(
        'bridge.notReady',
        `${this.gateway.label} is not ready, so its kernels cannot be listed.`
      );
    }
    const models = (await this._client.listRunning()).map(model => toLab(this.gateway.id, model));
    this._known = new Map(models.map(model => [model.id, model]));
    this.routes.kernelsListed(this.gateway.id, models);
    return models;
  }

  /**
   * The model of a kernel; undefined when the gateway reports that there is none.
   *
   * A connection requests this when its socket fails, and treats any failure but a network error as the death of its
   * kernel; after a network error it leaves a timer that later cuts a connection which was restored in the meantime.
   * An unreachable gateway gives no information about the kernel, so the last known model is the answer until it is back.
   */
  async getModel(id: string): Promise<Kernel.IModel | undefined> {
    try {
      const model = await this._client.getModel(id);
      return model && toLab(this.gateway.id, model);
    } catch {
      this.gateway.suspect();
      return this._known.get(id);
    }
  }

  async startNew(options: Kernel.IKernelOptions = {}): Promise<Kernel.IModel> {
    await readyToStart(this.gateway);
    const name = options.name === undefined ? undefined : splitSpecName(options.name).name;
    const started = await this._client.startNew({ ...options, ...(name !== undefined && { name }) });
    const model = toLab(this.gateway.id, started);
    this.routes.learnKernel(this.gateway.id, model);
    return model;
  }

  restart(id: string): Promise<void> {
    return this._client.restart(id);
  }

  interrupt(id: string): Promise<void> {
    return this._client.interrupt(id);
  }

  shutdown(id: string): Promise<void> {
    return this._client.shutdown(id);
  }

  private readonly _client: KernelAPI.KernelAPIClient;
  private _known = new Map<string, Kernel.IModel>();
}

export function toLab(place: Place, model: Kernel.IModel): Kernel.IModel {
  return { ...model, name: labSpecName(place, model.name) };
}
