/**
 * The guarantees of a keeper to the gateway. `KeeperClient` (client.ts) implements `KeeperHandle` over the
 * keeper's unix socket; the frames are in frames.ts and docs/architecture.md, "Keeper socket".
 */
import type { ControlCommand, ControlMessage } from '@tpulab/protocol';
import type { JournalRecord } from '../journal/record.js';

/** A keeper never sends `unknown`: the gateway uses it for the kernel of a keeper that does not answer. */
export type ExecutionState = 'starting' | 'idle' | 'busy' | 'restarting' | 'dead' | 'unknown';

/** The task of a keeper: a new kernel, or a running kernel whose keeper has ended. */
export type KeeperTask = 'start' | 'adopt';

/** Describes the kernel that a keeper starts. Written by the gateway to `<kernel dir>/launch.json` (0600). */
export interface LaunchDescription {
  readonly kernelId: string;
  /** The bridge's kernelspec name. */
  readonly specName: string;
  readonly displayName: string;
  /** Kernelspec argv; `{connection_file}`, `{resource_dir}` and `{prefix}` are not replaced yet. */
  readonly argv: readonly string[];
  readonly resourceDir: string | null;
  /** The complete environment of the kernel process, already filtered (it contains no secret of the bridge). */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly interruptMode: 'signal' | 'message';
  /** `metadata.tpulab.bestEffort` of the spec: the kernel is not started by our launcher, so the iopub limit remains. */
  readonly bestEffort: boolean;
  /** Folder for the sockets of this kernel, short enough for `sun_path`. */
  readonly runDir: string;
  /** Automatic restarts after a crash before the kernel is declared dead. */
  readonly restartLimit: number;
  /** Milliseconds between the shutdown request to a kernel and the kill of its process group. */
  readonly shutdownWaitMs: number;
  /** Quota of the kernel's journal in bytes; absent: the default. */
  readonly journalBytes?: number;
}

export interface KernelSnapshot {
  readonly kernelId: string;
  readonly specName: string;
  readonly executionState: ExecutionState;
  /** Why it is dead or restarting, if known: for example `exited with code 1`, `killed by SIGKILL`. */
  readonly reason: string | null;
  /** How the previous process ended, even when a new one runs; absent if there was none. */
  readonly lastEnd?: string;
  /** Unix milliseconds of the last message from or to the kernel. */
  readonly lastActivity: number;
  readonly startedAt: number;
  readonly keeperPid: number;
  readonly kernelPid: number | null;
  /** `header.session` of the kernel's own messages; null until it has sent one. */
  readonly kernelSession: string | null;
  /** Header (JSON text) of the request that the kernel is running, null when idle. */
  readonly busyParent: string | null;
  /** seq of the newest journal record, 0 when empty. */
  readonly lastSeq: number;
  /**
   * Set only if the journal was cut when this keeper took over, or a kernel of the same id was lost with its machine: from
   * this record on, numbers may have belonged to other messages.
   */
  readonly renumberedFrom?: number;
  /** False while the keeper takes over and the kernel may still resend earlier messages. */
  readonly isSettled?: boolean;
}

export interface TelemetryRecord {
  /** Number of the message, from 1 per kernel. */
  readonly seq: number;
  /** JSON text of one `TelemetryMessage`, checked to be an object with a string `type`. */
  readonly json: string;
}

export interface KeeperEvents {
  /** A journal record, pushed after it was written; in order, without omissions from `liveFrom` on. */
  record(record: JournalRecord): void;
  /**
   * Whether the payload of a large record of this channel should be read now; without this function, it always is.
   * Otherwise the record arrives abridged.
   */
  wantsPayload?(channel: number): boolean;
  state(snapshot: KernelSnapshot): void;
  telemetry(record: TelemetryRecord): void;
  /**
   * The journal cannot be written (the kernel continues), or can be written again (null). A `gap` record reports missing
   * messages.
   */
  journalFault?(fault: { readonly code: string; readonly message: string } | null): void;
  /** The socket to the keeper is lost. The handle is unusable; check whether the keeper is still alive. */
  disconnected(error: Error | null): void;
}

export interface KeeperHandle extends AsyncDisposable {
  readonly kernelId: string;
  /** Last known state, updated before `KeeperEvents.state` is called. */
  readonly snapshot: KernelSnapshot;
  /**
   * The current state of the keeper. Its `lastSeq` states which records it includes; pushed states may arrive after newer
   * records.
   */
  status(): Promise<{ readonly snapshot: KernelSnapshot; readonly kernelInfo: string | null }>;
  /** Starts the push of live records. Records before `liveFrom` are read from the journal's files. */
  subscribe(): Promise<{ liveFrom: number }>;
  /** Starts the push of telemetry after `since`, beginning with stored history. */
  subscribeTelemetry(since: number): Promise<{ historyFrom: number; lastSeq: number }>;
  /**
   * Sends a v1 frame to the kernel: journaled, signed, sent. False: the socket is congested, wait for `drain()`. The keeper
   * drops frames that are not a valid client message (check them first, `decodeV1`), and all frames while the kernel is dead.
   */
  send(frame: Buffer): boolean;
  /** Rejects with `keeper_disconnected` once the socket is lost. */
  drain(): Promise<void>;
  /**
   * Forwards a command for a run to the agent. Resolves with its answer (accepted, or refused with a reason); rejects with
   * `control_unavailable` or `control_unanswered`.
   */
  control(command: ControlCommand): Promise<ControlMessage>;
  interrupt(): Promise<void>;
  /** Same kernel id, new process. Resolves when the new process has answered kernel_info; rejects with KeeperError. */
  restart(): Promise<KernelSnapshot>;
  /** A normal shutdown; resolves when the process group has ended. The keeper ends afterwards. */
  shutdown(): Promise<void>;
}

/** Time from the start of the process to the reply to `kernel_info`. Slow disks and cold Python caches need tens of seconds. */
export const KERNEL_START_MS = 120_000;

/** A kernel that has run this long since it was ready counts as stable: earlier crashes no longer count. */
export const STABLE_MS = 10_000;

/** How long to wait for a kernel that is being taken over; its control thread may be blocked, by a debugger for example. */
export const PROOF_MS = 10_000;

/** Timeout for the reply to an `interrupt_request` on control. */
export const INTERRUPT_MS = 5_000;

/** Timeout from SIGKILL to the end of the process. A longer time means uninterruptible sleep, which nothing can end. */
export const KILL_MS = 10_000;

/** Timeout for unread messages of a kernel that has ended. */
export const DRAIN_MS = 2_000;
