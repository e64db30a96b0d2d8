/** The page's data about the kernels on its bridges. */
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { MachineSource } from '../devices/machine-source.js';
import type { MachineTelemetry } from '../devices/machine-telemetry.js';
import type { StreamState } from './event-stream.js';
import type { KernelTelemetry } from './kernel-telemetry.js';

/** The bridge's event streams: one socket per bridge, shared by all features. */
export interface IBridgeEvents {
  /** The stream of a backend; null while its address is not known, and for backends without events. */
  streamOf(backendId: string): StreamState | null;
  /** Emitted with the id of a backend after its stream changed state. */
  readonly streamChanged: ISignal<this, string>;
  /** The data of a kernel; the same object for the same id, empty for a kernel that has sent nothing. */
  telemetryOf(kernelId: string): KernelTelemetry;
  /** The machine behind a backend, sampled by its bridge; null for backends without events. */
  machineOf(backendId: string): MachineTelemetry | null;
  /** Chips, owners and history of that machine, on demand. */
  machineSourceOf(backendId: string): MachineSource | null;
  /** Ends the waits of all streams, and of unreachable backends. */
  reconnectNow(): void;
}

export const IBridgeEvents = new Token<IBridgeEvents>(
  '@tpulab/labextension:IBridgeEvents',
  'Live telemetry and state of the kernels on the TPULab server.'
);
