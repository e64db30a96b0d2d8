/**
 * Samples the machine and its chips: often while a page shows them, rarely otherwise, so that a history exists when
 * a page is opened again. One sample at a time; a slow one delays the next instead of overlapping it.
 */
import type { Chip, DevicesHistory, DevicesPage, MachineEvent, MachineSample } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { acceleratorInfo, type MetadataOptions } from './accelerator-info.js';
import { chipOwners, kernelOfProcess } from './chip-holders.js';
import { type ChipTable, findChips, type FoundChip } from '@tpulab/machines';
import type { DeviceReadings, Readings } from './device-readings.js';
import { History } from './history.js';
import { HostLoad } from './host-load.js';
import { SdkHelper } from './sdk-helper.js';

export const SAMPLE_HZ = 2;
/** The runtime averages its duty cycle over its own period; faster samples show nothing new. */
export const MAX_SAMPLE_HZ = 10;
/** Path of a Python that has libtpu: a helper then reads the metrics that only libtpu's SDK provides. */
const SDK_PYTHON = 'TPULAB_SDK_PYTHON';
/** Interval between samples while no page shows them. */
const BACKGROUND_MS = 10_000;

export interface SamplerOptions {
  /** Folder of the stored history. */
  readonly folder: string;
  readonly gatewayId: string;
  readonly table: ChipTable;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Rate while a page shows samples; 0: only requested samples. */
  readonly sampleHz?: number;
  readonly backgroundMs?: number;
  readonly isKernel?: (kernelId: string) => boolean;
  readonly metadata?: MetadataOptions;
  /** Replaces `/` in specs. */
  readonly root?: string;
  readonly log: Logger;
}

export class MachineSampler implements AsyncDisposable {
  readonly sampleHz: number;
  readonly #history: History;
  readonly #host: HostLoad;
  readonly #stopping = new AbortController();
  readonly #listeners = new Set<(event: MachineEvent) => void>();
  readonly #ready: Promise<void>;
  #chips: readonly FoundChip[] = [];
  #readings: DeviceReadings | null = null;
  #sdk: SdkHelper | null = null;
  #watchers = 0;
  #timer: NodeJS.Timeout | null = null;
  #sampling: Promise<MachineSample> | null = null;
  #newest: MachineEvent | null = null;
  #seq = 0;

  constructor(private readonly options: SamplerOptions) {
    const { sampleHz = SAMPLE_HZ, folder, log, root = '/' } = options;
    this.sampleHz = Math.min(MAX_SAMPLE_HZ, Math.max(0, sampleHz));
    this.#history = new History({ folder, log });
    this.#host = new HostLoad({ root });
    this.#ready = this.#start();
    void this.#ready.then(() => this.#schedule());
  }

  get newest(): MachineEvent | null {
    return this.#newest;
  }

  listen(listener: (event: MachineEvent) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** A page shows samples until the returned object is disposed. */
  watch(): Disposable {
    let isOver = false;
    this.#watchers++;
    this.#schedule();
    return {
      [Symbol.dispose]: () => {
        if (isOver) return;
        isOver = true;
        this.#watchers--;
      }
    };
  }

  async page(): Promise<DevicesPage> {
    await this.#ready;
    const { env, metadata = {}, table } = this.options;
    const hasTpu = this.#chips.length > 0 || declaresTpu(env);
    const [sample, chips, runtime, accelerator] = await Promise.all([
      this.#fresh(),
      this.#chipsWithOwners(),
      this.#readings?.details() ?? { uptimeS: null, errors: null, distributions: [] },
      // Without a TPU there is no metadata server, and looking up its name would only wake resolvers.
      acceleratorInfo(hasTpu ? env : { ...env, TPU_SKIP_MDS_QUERY: '1' }, {
        ...metadata,
        signal: this.#stopping.signal
      })
    ]);
    const names = new Set(chips.map(({ name }) => name));
    return {
      accelerator,
      chips,
      specs: table.list().filter(({ name }) => names.has(name)),
      sample,
      runtime,
      sampleHz: this.sampleHz
    };
  }

  async history(tierS: number, fromMs = 0): Promise<DevicesHistory> {
    await this.#ready;
    return this.#history.read(tierS, fromMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort(new Error('the server is stopping'));
    if (this.#timer) clearTimeout(this.#timer);
    this.#listeners.clear();
    await this.#ready;
    await this.#sampling?.catch(() => undefined);
    this.#readings?.[Symbol.dispose]();
    this.#readings = null;
    await this.#sdk?.[Symbol.asyncDispose]();
    await this.#history[Symbol.asyncDispose]();
  }

  async #start(): Promise<void> {
    const { table, root = '/', env, log } = this.options;
    // Read once now, so that the first sample already has rates.
    const [chips] = await Promise.all([findChips(table, root), this.#history.load(), this.#host.read()]);
    this.#chips = chips;
    if (this.#stopping.signal.aborted) return;
    // A port is dialled only if a process may answer.
    if (chips.length > 0 || declaresTpu(env)) {
      // gRPC uses as much memory as all other modules of an idle gateway together, and most machines have no TPU.
      const { DeviceReadings } = await import('./device-readings.js');
      this.#readings = new DeviceReadings({ ports: metricPorts(env) });
    }
    const python = env[SDK_PYTHON] ?? '';
    // Without a TPU the SDK only waits for a metadata server.
    if (chips.length > 0 && python !== '') this.#sdk = new SdkHelper({ python, env, log });
    if (chips.length > 0)
      log.info(
        { chips: chips.length, names: [...new Set(chips.map(({ name }) => name))] },
        'TPU chips found'
      );
  }

  #schedule(): void {
    if (this.#stopping.signal.aborted || this.sampleHz === 0) return;
    if (this.#timer) clearTimeout(this.#timer);
    const { backgroundMs = BACKGROUND_MS } = this.options;
    const waitMs = this.#watchers > 0 ? 1000 / this.sampleHz : backgroundMs;
    // A new viewer waits only for the short interval, not for the rest of the long one.
    this.#timer = setTimeout(() => void this.#tick(), waitMs);
    this.#timer.unref();
  }

  async #tick(): Promise<void> {
    try {
      await this.#ready;
      await this.#sample();
    } catch (error) {
      this.options.log.error({ err: error }, 'a sample of the machine could not be taken');
    }
    this.#schedule();
  }

  /** Rates need some time between two samples, so a recent sample is reused. */
  async #fresh(): Promise<MachineSample> {
    const newest = this.#newest?.machine;
    const maxAgeMs = this.sampleHz === 0 ? 500 : 1000 / this.sampleHz;
    const ageMs = newest ? Date.now() - newest.time : Infinity;
    return newest && ageMs >= 0 && ageMs < maxAgeMs ? newest : this.#sample();
  }

  #sample(): Promise<MachineSample> {
    return (this.#sampling ??= this.#readOnce().finally(() => (this.#sampling = null)));
  }

  async #readOnce(): Promise<MachineSample> {
    const { table, gatewayId } = this.options;
    const first = this.#chips[0]?.name ?? null;
    const spec = first === null ? null : table.get(first);
    const none: Readings = { devices: [], metrics: { state: 'no-chips', detail: null } };
    const [host, { devices, metrics }] = await Promise.all([
      this.#host.read(),
      this.#readings?.read(spec?.devices ?? null) ?? none
    ]);
    const sdk = this.#sdk?.newest ?? null;
    const machine: MachineSample = {
      time: Date.now(),
      host,
      devices: [...devices],
      metrics,
      ...(sdk === null ? {} : { sdk })
    };
    this.#newest = { topic: 'devices', gatewayId, machineSeq: ++this.#seq, machine };
    this.#history.add(machine);
    for (const listener of this.#listeners) listener(this.#newest);
    return machine;
  }

  async #chipsWithOwners(): Promise<Chip[]> {
    const { root = '/', isKernel = () => false } = this.options;
    const nodes = this.#chips.flatMap(({ node }) => node ?? []);
    const owners = await chipOwners(nodes, root);
    return Promise.all(
      this.#chips.map(async chip => ({
        ...chip,
        owners: await Promise.all(
          (owners.get(chip.node ?? '') ?? []).map(async owner => {
            const kernelId = await kernelOfProcess(owner.pid, root);
            return { ...owner, kernelId: kernelId !== null && isKernel(kernelId) ? kernelId : null };
          })
        )
      }))
    );
  }
}

/** Some hosts hide PCI devices from a container; then the environment shows that a TPU exists. */
function declaresTpu(env: SamplerOptions['env']): boolean {
  return [
    'TPU_RUNTIME_METRICS_PORTS',
    'TPU_ACCELERATOR_TYPE',
    'TPU_WORKER_ID',
    'TPU_CHIPS_PER_PROCESS_BOUNDS'
  ].some(name => (env[name] ?? '') !== '');
}

/** Where a process that holds chips serves its metrics. */
const DEFAULT_PORT = 8431;
/** A host has at most 8 chips; more ports than this are a mistake. */
const MAX_PORTS = 64;

/** From `TPU_RUNTIME_METRICS_PORTS` (`8431,8432,…`, one per process); invalid ports are skipped. */
export function metricPorts(env: Readonly<Record<string, string | undefined>>): number[] {
  const ports = (env['TPU_RUNTIME_METRICS_PORTS'] ?? '')
    .split(',')
    .map(text => (/^\s*\d{1,5}\s*$/.test(text) ? Number(text) : 0))
    .filter(port => port > 0 && port < 65_536);
  return ports.length === 0 ? [DEFAULT_PORT] : [...new Set(ports)].slice(0, MAX_PORTS);
}
