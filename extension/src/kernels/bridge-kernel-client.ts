/** The bridge's kernels REST API, with kernelspec names as the page knows them. */
import type { ServerConnection } from '@jupyterlab/services';
import { type Kernel, KernelAPI } from '@jupyterlab/services';
import { BackendError } from '../backends/backend-error.js';
import type { BridgeBackend } from '../backends/bridge-backend.js';
import type { SessionRoutes } from './session-routes.js';
import { bridgeSpecName, labSpecName } from './spec-names.js';

/** How long a start waits for a bridge that is still starting. */
export const START_WAIT_MS = 30_000;

export class BridgeKernelClient implements Kernel.IKernelAPIClient {
  readonly serverSettings: ServerConnection.ISettings;

  constructor(
    private readonly bridge: BridgeBackend,
    private readonly routes: SessionRoutes
  ) {
    this.serverSettings = bridge.liveSettings;
    this._client = new KernelAPI.KernelAPIClient({ serverSettings: this.serverSettings });
  }

  async listRunning(): Promise<Kernel.IModel[]> {
    if (this.bridge.state !== 'ok') {
      // The bridge is being watched already; a request would only add a failure to the browser's console.
      throw new BackendError(
        'bridge.notReady',
        'The TPULab bridge is not ready, so its kernels cannot be listed.'
      );
    }
    const models = (await this._client.listRunning()).map(asLabSees);
    this._known = new Map(models.map(model => [model.id, model]));
    this.routes.kernelsListed('bridge', models);
    return models;
  }

  /**
   * The model of a kernel; undefined when the bridge says that there is none.
   *
   * A connection asks this when its socket fails, and takes any failure but a network error for the death of its
   * kernel; after a network error it leaves a timer behind that later cuts a connection which was restored meanwhile.
   * A bridge that is away tells nothing about the kernel, so the last known model is the answer until it is back.
   */
  async getModel(id: string): Promise<Kernel.IModel | undefined> {
    try {
      const model = await this._client.getModel(id);
      return model && asLabSees(model);
    } catch {
      this.bridge.suspect();
      return this._known.get(id);
    }
  }

  async startNew(options: Kernel.IKernelOptions = {}): Promise<Kernel.IModel> {
    await this.bridge.serving(START_WAIT_MS);
    const name = options.name === undefined ? undefined : (bridgeSpecName(options.name) ?? options.name);
    const model = asLabSees(await this._client.startNew({ ...options, ...(name !== undefined && { name }) }));
    this.routes.learnKernel('bridge', model);
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

export function asLabSees(model: Kernel.IModel): Kernel.IModel {
  return { ...model, name: labSpecName(model.name) };
}
