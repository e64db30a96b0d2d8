/** Failures of a keeper or of its kernel, as reported to its gateway. */
import { CodedError } from '@tpulab/platform/errors.js';

export type KeeperErrorCode =
  /** The process no longer exists; see `KeeperEndedError`. */
  | 'keeper_gone'
  /** The socket closed during a request. Check whether the keeper is still alive. */
  | 'keeper_disconnected'
  | 'keeper_start_failed'
  /** Another process is this kernel's keeper. Attach to it. */
  | 'keeper_exists'
  /** The kernel belongs to another machine or container that shares this folder. */
  | 'keeper_elsewhere'
  | 'keeper_timeout'
  /** The two ends use different protocols. */
  | 'keeper_protocol'
  | 'keeper_stopping'
  /** Nothing in the kernel accepts commands for runs. */
  | 'control_unavailable'
  /** The command was forwarded; whether it will be applied is unknown. */
  | 'control_unanswered'
  | 'launch_invalid'
  | 'socket_path_too_long'
  | 'kernel_start_failed'
  | 'kernel_dead'
  | 'kernel_restarting'
  | 'kernel_start_timeout'
  | 'kernel_interrupt_failed'
  | 'kernel_unkillable';

export class KeeperError extends CodedError<KeeperErrorCode> {}

interface EndedKeeper {
  readonly kernelId: string;
  readonly keeperPid: number | null;
  /** The kernel process that the keeper left behind and that still runs; null if there is none. */
  readonly orphanPid: number | null;
}

/** The keeper of a kernel has ended or was never started. Retrying does not help. */
export class KeeperEndedError extends KeeperError {
  constructor(
    readonly keeper: EndedKeeper,
    options?: ErrorOptions
  ) {
    const orphan = keeper.orphanPid === null ? '' : ` Its kernel still runs as process ${keeper.orphanPid}.`;
    super('keeper_gone', `The keeper of kernel ${keeper.kernelId} is not running.${orphan}`, options);
  }
}

/** @param host name of the other machine or container */
export function keeperElsewhere(kernelId: string, host: string): KeeperError {
  return new KeeperError(
    'keeper_elsewhere',
    `Kernel ${kernelId} belongs to ${host}, a machine or container that shares this state folder; use it through the server there.`
  );
}
