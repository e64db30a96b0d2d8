/** Where the features of this extension meet: interfaces and tokens, nothing that runs. */
import type { Kernel, ServerConnection } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { CurrentKernel } from './current/model.js';
import type { StreamState } from './events/event-stream.js';
import type { KernelTelemetry } from './events/kernel-telemetry.js';
import type { MachineSource } from './machine/machine-source.js';
import type { MachineTelemetry } from './machine/machine-telemetry.js';

/**
 * What a backend is doing. `starting`: no answer yet. `ok`: it answered the last request.
 * `down`: refused, timed out, failed, or answered something that is not Jupyter. `auth`: it refused our token.
 */
export type BackendState = 'starting' | 'ok' | 'down' | 'auth';

/** Why a backend is not `ok`. `code` is stable, `message` says what failed and what to do. */
export interface IBackendError {
  readonly code: string;
  readonly message: string;
}

/** A kernel server whose kernels are in this page. */
export interface IBackend {
  /** `jupyter` for the server of the page, `bridge` for the bridge on this machine, `remote/NAME` for a remote. */
  readonly id: string;
  /** For people: `Jupyter server`, `TPULab bridge`. */
  readonly label: string;
  readonly state: BackendState;
  /** The last failure; null while `ok`. */
  readonly lastError: IBackendError | null;
  /** Unix milliseconds of the next automatic attempt, for a countdown; null when none is due. */
  readonly nextRetryAt: number | null;
  /** How to reach it; null until its address is known. Replaced when address or token change. */
  readonly serverSettings: ServerConnection.ISettings | null;
  /** Emitted after any property above has changed. */
  readonly changed: ISignal<this, void>;
  /** Tries now instead of at `nextRetryAt`, and reconnects its disconnected kernels. Never throws. */
  reconnectNow(): void;
}

/** The kernel servers behind this page. */
export interface IBridgeBackends {
  /** The page's own server first. */
  readonly backends: readonly IBackend[];
  /** The bridge on this machine: always listed, whatever its state. */
  readonly bridge: IBackend;
  /** Emitted with the backend after it has changed. */
  readonly changed: ISignal<this, IBackend>;
  /** The backend on which a kernel lives; null when no list has shown this kernel. Kernel ids are those of the backend. */
  backendOf(kernelId: string): IBackend | null;
  /** True for kernelspec names that start a kernel on the bridge or on a remote (`tpulab-*`, `bridge/*`, `remote/*`). */
  isBridgeSpec(name: string): boolean;
  /** The backend at which a kernelspec name starts a kernel; null for the name of a remote that is not known. */
  backendOfSpec(name: string): IBackend | null;
}

export const IBridgeBackends = new Token<IBridgeBackends>(
  '@tpulab/labextension:IBridgeBackends',
  'The kernel servers behind this page and their states.'
);

/** The bridge's event streams: one socket a bridge, shared by all features. */
export interface IBridgeEvents {
  /** The stream of a backend; null while its address is not known, and for backends without events. */
  streamOf(backendId: string): StreamState | null;
  /** Emitted with the id of a backend after its stream changed state. */
  readonly streamChanged: ISignal<this, string>;
  /** Everything known of a kernel; the same object for the same id, empty for a kernel that has sent nothing. */
  telemetryOf(kernelId: string): KernelTelemetry;
  /** The machine behind a backend, sampled by its bridge; null for backends without events. */
  machineOf(backendId: string): MachineTelemetry | null;
  /** Chips, owners and history of that machine, on demand. */
  machineSourceOf(backendId: string): MachineSource | null;
  /** Ends the waits of all streams, and of backends that are down. */
  reconnectNow(): void;
}

export const IBridgeEvents = new Token<IBridgeEvents>(
  '@tpulab/labextension:IBridgeEvents',
  'Live telemetry and state of the kernels on the bridge.'
);

/** The kernel of the notebook or console that people look at. */
export interface ICurrentKernel {
  readonly current: CurrentKernel;
  /** Its connection; null when there is no kernel. */
  readonly kernel: Kernel.IKernelConnection | null;
  /** Emitted after any field of `current` has changed. */
  readonly changed: ISignal<this, void>;
}

export const ICurrentKernel = new Token<ICurrentKernel>(
  '@tpulab/labextension:ICurrentKernel',
  'The kernel of the notebook or console that people look at.'
);
