/** Interfaces and tokens shared by the features of this extension, without code. `backends/tokens` and `events/tokens` have the others. */
import type { Kernel, ServerConnection } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

/**
 * The state of a backend. `starting`: no answer yet. `ok`: it answered the last request.
 * `down`: refused, timed out, failed, or gave an answer that is not Jupyter's. `auth`: it refused our token.
 */
export type BackendState = 'starting' | 'ok' | 'down' | 'auth';

/** Why a backend is not `ok`. `code` is stable, `message` contains the failure and the remedy. */
export interface IBackendError {
  readonly code: string;
  readonly message: string;
}

/** A kernel server whose kernels are in this page. */
export interface IBackend {
  /** `jupyter` for the server of the page, `bridge` for the bridge on this machine, `remote/NAME` for a remote. */
  readonly id: string;
  /** Display name: `Jupyter server`, `TPULab bridge`. */
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

/**
 * `none`: no notebook or console has been active. `no-kernel`: it has none.
 * `local`: its kernel is on the page's own server. `bridge`: its kernel is on a bridge.
 */
export type CurrentKernel =
  | { readonly kind: 'none' }
  | { readonly kind: 'no-kernel'; readonly document: string }
  | { readonly kind: 'local'; readonly document: string; readonly kernelName: string }
  | {
      readonly kind: 'bridge';
      readonly document: string;
      readonly kernelName: string;
      readonly kernelId: string;
      /** `session_id` of the kernel's channels socket. */
      readonly clientId: string;
      readonly connection: Kernel.ConnectionStatus;
      readonly status: Kernel.Status;
      readonly backend: IBackend;
    };

/** The kernel of the current notebook or console. */
export interface ICurrentKernel {
  readonly current: CurrentKernel;
  /** Its connection; null when there is no kernel. */
  readonly kernel: Kernel.IKernelConnection | null;
  /** Emitted after any field of `current` has changed. */
  readonly changed: ISignal<this, void>;
}

export const ICurrentKernel = new Token<ICurrentKernel>(
  '@tpulab/labextension:ICurrentKernel',
  'The kernel of the current notebook or console.'
);
