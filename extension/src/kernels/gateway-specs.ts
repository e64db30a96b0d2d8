/** The kernelspecs of one gateway under the page's names: cached, as reported, and with their logos. */
import { type KernelSpec, KernelSpecAPI } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import type { GatewayBackend } from '../backends/gateway-backend.js';
import { RemoteBackend } from '../backends/remote-backend.js';
import { remoteKernelName } from '../backends/remote-names.js';
import { within } from '../platform/wait.js';
import type { LogoLoader } from './logos.js';
import type { SpecCache } from './spec-cache.js';
import { labSpecName } from '../backends/spec-names.js';

export type Specs = Record<string, KernelSpec.ISpecModel>;

export class GatewaySpecs {
  constructor(
    readonly gateway: GatewayBackend,
    private readonly cache: SpecCache,
    private readonly logos: LogoLoader
  ) {
    this._client = new KernelSpecAPI.KernelSpecAPIClient({ serverSettings: gateway.liveSettings });
    this._bare = cache.read(gateway.id);
    gateway.changed.connect(this.onGateway, this);
  }

  /** A late list has arrived, or its displayed form has changed. */
  readonly changed = new Signal<this, void>(this);

  /** The gateway's own choice; null until reported. */
  get preferred(): string | null {
    return this._preferred;
  }

  get isKnown(): boolean {
    return this._preferred !== null;
  }

  specs(): Specs {
    return Object.fromEntries(
      Object.entries(this._bare).map(([name, spec]) => [
        name,
        { ...spec, display_name: this.displayName(spec), resources: this.logos.known(spec.resources) }
      ])
    );
  }

  /** Waits up to this time for the list, which otherwise arrives later. Never rejects: the gateway's state has the error. */
  async refresh(waitMs: number): Promise<void> {
    if (this.gateway.state !== 'ok') return;
    const arrival = this.fetch();
    try {
      if ((await within(arrival, waitMs)) === null) {
        void arrival.then(
          () => this.changed.emit(),
          () => this.gateway.suspect()
        );
      }
    } catch {
      this.gateway.suspect();
    }
  }

  dispose(): void {
    this.gateway.changed.disconnect(this.onGateway, this);
    Signal.clearData(this);
  }

  private async fetch(): Promise<true> {
    const { id, liveSettings } = this.gateway;
    const models = await this._client.get();
    const specs: Specs = {};
    for (const [name, spec] of Object.entries(models.kernelspecs)) {
      if (spec) {
        const labName = labSpecName(id, name);
        specs[labName] = { ...spec, name: labName };
      }
    }
    this._preferred = labSpecName(id, models.default);
    this._bare = specs;
    // Without the logos: cached ones would outlive a change of the image.
    this.cache.write(id, specs);
    void this.logos
      .load(
        Object.values(specs).map(spec => spec.resources),
        liveSettings
      )
      .then(loaded => {
        if (loaded) this.changed.emit();
      });
    return true;
  }

  /** Two entries called "Python 3 (ipykernel)" could not be distinguished in the kernel dialog. */
  private displayName({ name, display_name: own }: KernelSpec.ISpecModel): string {
    const { gateway } = this;
    if (gateway instanceof RemoteBackend) return remoteKernelName(own, gateway.displayName);
    return name.startsWith('tpulab-') ? own : `${own} (TPULab server)`;
  }

  private onGateway(): void {
    const { gateway } = this;
    if (gateway instanceof RemoteBackend) {
      // The known data of a remote is retained while it is disconnected; its accelerator becomes known when it is connected.
      if (gateway.displayName !== this._shownAs) {
        this._shownAs = gateway.displayName;
        this.changed.emit();
      }
    } else if (!this.isKnown && (gateway.state === 'down' || gateway.state === 'auth')) {
      // Specs of an earlier page are shown only until the bridge has answered in this page.
      const shown = Object.keys(this._bare).length > 0;
      this._bare = {};
      if (shown) this.changed.emit();
    }
  }

  private readonly _client: KernelSpecAPI.KernelSpecAPIClient;
  private _bare: Specs;
  private _preferred: string | null = null;
  private _shownAs = '';
}
