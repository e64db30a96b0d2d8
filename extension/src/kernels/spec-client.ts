/**
 * One kernelspecs API over both backends: the Jupyter server's own specs at once, the bridge's beside them under
 * names that cannot meet. Emits `bridgeSpecsChanged` when a list that was late has arrived.
 */
import { type KernelSpec, KernelSpecAPI, type ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import type { Backends } from '../backends/backends.js';
import { within } from './bounded-wait.js';
import { asConnectionFailure } from './failure.js';
import type { LogoLoader } from './logos.js';
import type { SpecCache } from './spec-cache.js';
import { labSpecName } from './spec-names.js';

type Specs = Record<string, KernelSpec.ISpecModel>;

/** As for sessions: long enough for a bridge that serves, too short to be noticed with one that hangs. */
const FIRST_WAIT_MS = 1_200;
const LATER_WAIT_MS = 1_200;

export class CompositeSpecClient implements KernelSpec.IKernelSpecAPIClient {
  readonly serverSettings: ServerConnection.ISettings;

  constructor(
    private readonly backends: Backends,
    private readonly cache: SpecCache,
    private readonly logos: LogoLoader
  ) {
    this.serverSettings = backends.jupyter.serverSettings;
    this._jupyter = new KernelSpecAPI.KernelSpecAPIClient({ serverSettings: this.serverSettings });
    this._bridge = new KernelSpecAPI.KernelSpecAPIClient({ serverSettings: backends.bridge.liveSettings });
    backends.bridge.changed.connect(this.forgetRemembered, this);
  }

  get connectionFailure(): ISignal<this, Error> {
    return this._connectionFailure;
  }

  get bridgeSpecsChanged(): ISignal<this, void> {
    return this._bridgeSpecsChanged;
  }

  async get(): Promise<KernelSpec.ISpecModels> {
    const [own] = await Promise.allSettled([this._jupyter.get(), this.refreshBridge()]);
    if (own.status === 'fulfilled') {
      this._own = own.value;
      this.backends.specsListed('jupyter', Object.keys(own.value.kernelspecs));
    } else {
      const failure = asConnectionFailure(own.reason);
      if (failure !== null) {
        this._connectionFailure.emit(failure);
      }
      // An environment for Lab alone has no kernelspec of its own, which the stock client reports as an error.
      if (this._own === null && Object.keys(this._bridgeSpecs).length === 0) {
        throw own.reason;
      }
    }
    return this.merged();
  }

  /** The bridge's specs as they are known now, under the page's names. */
  bridgeSpecs(): Specs {
    return this._bridgeSpecs;
  }

  private merged(): KernelSpec.ISpecModels {
    const own = this._own;
    // Should a kernelspec `tpulab-*` be installed by hand as well, the bridge's wins, as in `Backends.specPlace`.
    const kernelspecs: Record<string, KernelSpec.ISpecModel | undefined> = {
      ...own?.kernelspecs,
      ...this._bridgeSpecs
    };
    const preferred = own?.default ?? this._bridgeDefault ?? Object.keys(kernelspecs)[0] ?? '';
    return { default: preferred, kernelspecs };
  }

  /** Never rejects. */
  private async refreshBridge(): Promise<void> {
    const { bridge } = this.backends;
    if (!this._waited) {
      this._bridgeSpecs = this.cache.read();
      await bridge.settled(FIRST_WAIT_MS);
      this._waited = true;
    }
    if (bridge.state !== 'ok') {
      return;
    }
    const arrival = this.fetchBridge();
    try {
      if ((await within(arrival, LATER_WAIT_MS)) === null) {
        void arrival.then(
          () => this._bridgeSpecsChanged.emit(),
          () => bridge.suspect()
        );
      }
    } catch {
      bridge.suspect();
    }
  }

  private async fetchBridge(): Promise<true> {
    const models = await this._bridge.get();
    const specs: Specs = {};
    for (const [name, spec] of Object.entries(models.kernelspecs)) {
      if (spec) {
        specs[labSpecName(name)] = asLabSees(name, spec);
      }
    }
    this._bridgeDefault = labSpecName(models.default);
    this.backends.specsListed('bridge', Object.keys(specs));
    // Without the logos: remembered ones would outlive a change of the image.
    this.cache.write(specs);
    this._bridgeSpecs = this.withKnownLogos(specs);
    this.loadLogos(specs);
    return true;
  }

  private withKnownLogos(specs: Specs): Specs {
    return Object.fromEntries(
      Object.entries(specs).map(([name, spec]) => [
        name,
        { ...spec, resources: this.logos.known(spec.resources) }
      ])
    );
  }

  private loadLogos(specs: Specs): void {
    const resources = Object.values(specs).map(spec => spec.resources);
    void this.logos.load(resources, this.backends.bridge.liveSettings).then(loaded => {
      if (loaded) {
        this._bridgeSpecs = this.withKnownLogos(specs);
        this._bridgeSpecsChanged.emit();
      }
    });
  }

  /** Specs of an earlier page are shown only until the bridge has been heard of in this one. */
  private forgetRemembered(): void {
    const { state } = this.backends.bridge;
    if (this._bridgeDefault === null && (state === 'down' || state === 'auth')) {
      const shown = Object.keys(this._bridgeSpecs).length > 0;
      this._bridgeSpecs = {};
      if (shown) {
        this._bridgeSpecsChanged.emit();
      }
    }
  }

  private readonly _jupyter: KernelSpecAPI.KernelSpecAPIClient;
  private readonly _bridge: KernelSpecAPI.KernelSpecAPIClient;
  private readonly _connectionFailure = new Signal<this, Error>(this);
  private readonly _bridgeSpecsChanged = new Signal<this, void>(this);
  private _own: KernelSpec.ISpecModels | null = null;
  private _bridgeSpecs: Specs = {};
  private _bridgeDefault: string | null = null;
  private _waited = false;
}

function asLabSees(name: string, spec: KernelSpec.ISpecModel): KernelSpec.ISpecModel {
  const labName = labSpecName(name);
  return {
    ...spec,
    name: labName,
    // Two entries called "Python 3 (ipykernel)" could not be told apart in the kernel dialog.
    display_name: labName === name ? spec.display_name : `${spec.display_name} (TPULab bridge)`
  };
}
