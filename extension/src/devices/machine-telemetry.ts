/** The page's data about the machine of one bridge: its newest sample, the last minutes, its chips and their holders. */
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import type { DevicesPage, HoldersPage, MachineEvent, MachineSample } from '@tpulab/protocol';
import { ThrottledSignal } from '../platform/throttled-signal.js';
import { figuresOf } from './figures.js';
import { SeriesRing } from './series-ring.js';

/** Maximum number of samples: ten minutes at two per second. */
const MAX_SAMPLES = 1_200;
const CHANGED_INTERVAL_MS = 100;

export class MachineTelemetry implements IDisposable {
  constructor(readonly backendId: string) {
    this._changed = new ThrottledSignal<this>(this, CHANGED_INTERVAL_MS);
  }

  /** Samples since this page started monitoring; older ones are in the bridge's history. */
  readonly ring = new SeriesRing(MAX_SAMPLES);

  get changed(): ISignal<this, void> {
    return this._changed.signal;
  }

  get isDisposed(): boolean {
    return this._changed.isDisposed;
  }

  /** Null until the bridge has sent one. */
  get sample(): MachineSample | null {
    return this._sample;
  }

  /** Chips, owners and the known data of their generation; null until requested. */
  get page(): DevicesPage | null {
    return this._page;
  }

  /** The holders of the chips, as of the page; null without chips, or if the bridge does not report them. */
  get holders(): HoldersPage | null {
    return this._holders;
  }

  applySample(event: MachineEvent): void {
    const isAnotherGateway = event.gatewayId !== this._gatewayId;
    if (!isAnotherGateway && event.machineSeq <= this._seq) return;
    this._gatewayId = event.gatewayId;
    this._seq = event.machineSeq;
    this._sample = event.machine;
    if (event.machine.time > this.ring.lastTime) this.ring.push(event.machine.time, figuresOf(event.machine));
    this._changed.fire();
  }

  setPage(page: DevicesPage, holders: HoldersPage | null = null): void {
    this._page = page;
    this._holders = holders;
    this._sample ??= page.sample;
    this._changed.fire();
  }

  dispose(): void {
    this._changed.dispose();
  }

  private readonly _changed: ThrottledSignal<this>;
  private _sample: MachineSample | null = null;
  private _page: DevicesPage | null = null;
  private _holders: HoldersPage | null = null;
  private _gatewayId = '';
  private _seq = 0;
}
