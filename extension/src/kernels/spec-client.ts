/**
 * One kernelspecs API over all backends: the Jupyter server's own specs immediately, specs of bridge and remotes under
 * names that cannot conflict. Emits `gatewaySpecsChanged` when a late list has arrived.
 */
import { type KernelSpec, KernelSpecAPI, type ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { BackendError } from '../backends/backend-error.js';
import type { GatewayBackend } from '../backends/gateway-backend.js';
import { asConnectionFailure } from './failure.js';
import { firstAnswers } from './first-answers.js';
import { GatewaySpecs, type Specs } from './gateway-specs.js';
import type { LogoLoader } from './logos.js';
import type { SpecCache } from './spec-cache.js';
import type { IBridgeBackends } from '../backends/tokens.js';

export interface ISpecWaits {
  /** How long the first list waits for gateways that have not answered yet. */
  firstListMs: number;
  /**
   * The same for the server of this machine, in a browser without cached kernelspecs of it: Lab shows its kernel dialog for a
   * notebook whose kernelspec is in no list, and a server that starts with Lab takes a moment. A failing server ends the wait sooner.
   */
  firstVisitMs: number;
  /** How long a list waits for a gateway's part before it uses the last known part. */
  gatewayListMs: number;
}

/** As for sessions: long enough for a gateway that serves, too short to be noticed if it hangs. */
const SPEC_WAITS: ISpecWaits = { firstListMs: 1_200, firstVisitMs: 10_000, gatewayListMs: 1_200 };

export class CompositeSpecClient implements KernelSpec.IKernelSpecAPIClient {
  readonly serverSettings: ServerConnection.ISettings;

  constructor(
    private readonly backends: IBridgeBackends,
    private readonly cache: SpecCache,
    private readonly logos: LogoLoader,
    private readonly waits: ISpecWaits = SPEC_WAITS
  ) {
    this.serverSettings = backends.serverSettings;
    this._jupyter =
      backends.jupyter && new KernelSpecAPI.KernelSpecAPIClient({ serverSettings: this.serverSettings });
    backends.gateways.forEach(gateway => this.addGateway(gateway));
    backends.gatewayAdded.connect((_, gateway) => {
      this.addGateway(gateway);
      this.gatewaySpecsChanged.emit();
    });
    backends.gatewayRemoved.connect((_, gateway) => {
      this._gateways.get(gateway.id)?.dispose();
      this._gateways.delete(gateway.id);
      this.gatewaySpecsChanged.emit();
    });
  }

  readonly connectionFailure = new Signal<this, Error>(this);

  readonly gatewaySpecsChanged = new Signal<this, void>(this);

  async get(): Promise<KernelSpec.ISpecModels> {
    const [own] = await Promise.allSettled([this.ownSpecs(), this.refreshGateways()]);
    if (own.status === 'fulfilled') {
      this._own = own.value;
      this.backends.specsListed('jupyter', Object.keys(own.value.kernelspecs));
    } else {
      const failure = asConnectionFailure(own.reason);
      if (failure !== null) this.connectionFailure.emit(failure);
      // An environment with only Lab has no kernelspec, which the stock client reports as an error.
      if (this._own === null && Object.keys(this.gatewaySpecs()).length === 0) throw own.reason;
    }
    return this.merged();
  }

  /** Requests the gateways' lists again: an environment may have been created in a terminal. Never rejects. */
  async poll(): Promise<void> {
    const before = Object.keys(this.gatewaySpecs()).sort().join();
    await this.refreshGateways();
    if (Object.keys(this.gatewaySpecs()).sort().join() !== before) this.gatewaySpecsChanged.emit();
  }

  /** The present specs of bridge and remotes, under the page's names. */
  gatewaySpecs(): Specs {
    return Object.assign({}, ...[...this._gateways.values()].map(each => each.specs())) as Specs;
  }

  private ownSpecs(): Promise<KernelSpec.ISpecModels> {
    const none = new BackendError('jupyter.none', 'No server of this page has listed a kernel yet.');
    return this._jupyter?.get() ?? Promise.reject(none);
  }

  private merged(): KernelSpec.ISpecModels {
    const own = this._own;
    // If a kernelspec `tpulab-*` is also installed by hand, the bridge's wins, as in `IBridgeBackends.specPlace`.
    const kernelspecs: Record<string, KernelSpec.ISpecModel | undefined> = {
      ...own?.kernelspecs,
      ...this.gatewaySpecs()
    };
    const ofBridge = this._gateways.get('bridge')?.preferred;
    const preferred = own?.default ?? ofBridge ?? Object.keys(kernelspecs)[0] ?? '';
    return { default: preferred, kernelspecs };
  }

  /** Never rejects. */
  private async refreshGateways(): Promise<void> {
    if (!this._waited) {
      const { firstListMs, firstVisitMs } = this.waits;
      const isRemembered = Object.keys(this.gatewaySpecs()).length > 0;
      await firstAnswers(this.backends, firstListMs, isRemembered ? firstListMs : firstVisitMs);
      this._waited = true;
    }
    await Promise.all([...this._gateways.values()].map(each => this.refreshOne(each)));
  }

  private async refreshOne(each: GatewaySpecs): Promise<void> {
    await each.refresh(this.waits.gatewayListMs);
    if (each.isKnown) this.backends.specsListed(each.gateway.id, Object.keys(each.specs()));
  }

  private addGateway(gateway: GatewayBackend): void {
    const specs = new GatewaySpecs(gateway, this.cache, this.logos);
    specs.changed.connect(() => this.gatewaySpecsChanged.emit());
    this._gateways.set(gateway.id, specs);
  }

  private readonly _jupyter: KernelSpecAPI.KernelSpecAPIClient | null;
  private readonly _gateways = new Map<string, GatewaySpecs>();
  private _own: KernelSpec.ISpecModels | null = null;
  private _waited = false;
}
