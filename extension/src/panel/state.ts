/** The state of the panel: its kernel, the data about it, the settings, and the folded parts. */
import type { CurrentKernel } from '../tokens.js';
import type { StreamState } from '../events/event-stream.js';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run.js';
import type { RangeName } from '../devices/history-window.js';
import type { MachineSource } from '../devices/machine-source.js';
import type { MachineTelemetry } from '../devices/machine-telemetry.js';
import type { IBridgeEvents } from '../events/tokens.js';
import type { ICurrentKernel } from '../tokens.js';
import { Changing } from '../platform/changing.js';

export const SECTIONS = ['devices', 'preflight', 'steps', 'compilations', 'run'] as const;
/** Parts that a setting can hide; the run has several parts. */
export type SectionId = (typeof SECTIONS)[number];

/** Parts that fold. */
type PartId = Exclude<SectionId, 'run'> | 'metrics' | 'media' | 'hyperparameters' | 'log' | 'others';
const FOLDED_AT_FIRST: readonly PartId[] = ['log', 'others', 'preflight'];

export interface PanelSettings {
  /** Number of newest steps in the chart and in the figures. */
  readonly stepsShown: number;
  readonly drawsPerSecond: number;
  /** Inline annotations in cells. */
  readonly lineNotes: boolean;
  /** How far back the charts of the machine go at first. */
  readonly history: RangeName | 'off';
  /** Parts that are shown. */
  readonly sections: readonly SectionId[];
}

export const DEFAULT_SETTINGS: PanelSettings = {
  stepsShown: 48,
  drawsPerSecond: 10,
  lineNotes: true,
  history: 'minutes',
  sections: SECTIONS
};

/** The bridge on this machine: its machine is shown while the current kernel is on none. */
const LOCAL_BRIDGE = 'bridge';

export class PanelState extends Changing {
  constructor(
    private readonly _currentKernel: ICurrentKernel,
    private readonly _events: IBridgeEvents
  ) {
    super();
    _currentKernel.changed.connect(this._emit, this);
    _events.streamChanged.connect(this._emit, this);
  }

  /** Emitted when a property below has changed; not for telemetry, which has its own signal. */
  get current(): CurrentKernel {
    return this._currentKernel.current;
  }

  /** Null when the current kernel is not on a bridge. */
  get telemetry(): KernelTelemetry | null {
    return this.current.kind === 'bridge' ? this._events.telemetryOf(this.current.kernelId) : null;
  }

  /** Null when the current kernel is not on a bridge, or the address of the bridge is unknown. */
  get stream(): StreamState | null {
    return this.current.kind === 'bridge' ? this._events.streamOf(this.current.backend.id) : null;
  }

  /** The machine of the current kernel, or of the local bridge; null where there are no samples. */
  get machine(): MachineTelemetry | null {
    return this._events.machineOf(this._backendId());
  }

  get machineSource(): MachineSource | null {
    return this._events.machineSourceOf(this._backendId());
  }

  /** The shown run: the chosen run, else the run with the last message. */
  get run(): Run | null {
    const runs = this.telemetry?.runs ?? null;
    return runs?.runs.find(({ id }) => id === this._chosenRun) ?? runs?.current ?? null;
  }

  /** Stays with this run; choosing the newest run follows the newest again. */
  chooseRun(run: Run): void {
    this._chosenRun = run === this.telemetry?.runs.current ? null : run.id;
    this._emit();
  }

  get settings(): PanelSettings {
    return this._settings;
  }

  set settings(settings: PanelSettings) {
    this._settings = settings;
    this._emit();
  }

  /** The panel is hidden: it draws nothing. */
  get paused(): boolean {
    return this._paused;
  }

  set paused(paused: boolean) {
    if (paused !== this._paused) {
      this._paused = paused;
      this._emit();
    }
  }

  isOpen(part: PartId): boolean {
    return !this._folded.has(part);
  }

  toggle(part: PartId): void {
    if (!this._folded.delete(part)) {
      this._folded.add(part);
    }
    this._emit();
  }

  /** Metrics whose charts are open. */
  get metrics(): readonly string[] {
    return this._metrics;
  }

  toggleMetric(name: string): void {
    this._metrics = this._metrics.includes(name)
      ? this._metrics.filter(one => one !== name)
      : [...this._metrics, name];
    this._emit();
  }

  /** Keys of the runs that are compared with the shown run. */
  get compared(): readonly string[] {
    return this._compared;
  }

  compare(keys: readonly string[]): void {
    this._compared = keys;
    this._emit();
  }

  private _backendId(): string {
    return this.current.kind === 'bridge' ? this.current.backend.id : LOCAL_BRIDGE;
  }

  private _emit(): void {
    this.changed.emit();
  }

  private readonly _folded = new Set<PartId>(FOLDED_AT_FIRST);
  private _compared: readonly string[] = [];
  private _metrics: readonly string[] = [];
  private _settings = DEFAULT_SETTINGS;
  private _chosenRun: string | null = null;
  private _paused = true;
}
