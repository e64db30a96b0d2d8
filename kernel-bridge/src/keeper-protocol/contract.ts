/**
 * What the gateway may rely on from a keeper. `KeeperClient` (client.ts) implements `KeeperHandle` over the
 * keeper's unix socket; the frames are in frames.ts and docs/architecture.md, "Keeper socket".
 */
import type { ControlCommand, ControlMessage } from '@tpulab/protocol';
import type { JournalRecord } from '../journal/record.js';

/** `unknown` is never said by a keeper: it is the gateway's word for the kernel of a keeper that does not answer. */
export type ExecutionState = 'starting' | 'idle' | 'busy' | 'restarting' | 'dead' | 'unknown';

/** What a keeper is started for: a new kernel, or one that runs and whose keeper has ended. */
export type KeeperTask = 'start' | 'adopt';

/** What a keeper is to start. Written by the gateway to `<kernel dir>/launch.json` (0600). */
export interface LaunchDescription {
  readonly kernelId: string;
  /** Kernelspec name at the bridge. */
  readonly specName: string;
  readonly displayName: string;
  /** Kernelspec argv; `{connection_file}` and `{resource_dir}` still to be filled in. */
  readonly argv: readonly string[];
  readonly resourceDir: string | null;
  /** The complete environment of the kernel process, already filtered (no secret of the bridge). */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly interruptMode: 'signal' | 'message';
  /** `metadata.tpulab.bestEffort` of the spec: not our launcher, so the iopub limit is not lifted. */
  readonly bestEffort: boolean;
  /** Folder for the sockets of this kernel, short enough for `sun_path`. */
  readonly runDir: string;
  /** Automatic restarts after a crash before the kernel is declared dead. */
  readonly restartLimit: number;
  /** Milliseconds between asking a kernel to stop and killing its process group. */
  readonly shutdownWaitMs: number;
  /** Quota of the kernel's journal in bytes; absent: the default. */
  readonly journalBytes?: number;
}

export interface KernelSnapshot {
  readonly kernelId: string;
  readonly specName: string;
  readonly executionState: ExecutionState;
  /** Why it is dead or restarting, when known: for example `exited with code 1`, `killed by SIGKILL`. */
  readonly reason: string | null;
  /** How the process before this one ended, also when another runs since; absent while there was none. */
  readonly lastEnd?: string;
  /** Unix milliseconds of the last message from or to the kernel. */
  readonly lastActivity: number;
  readonly startedAt: number;
  readonly keeperPid: number;
  readonly kernelPid: number | null;
  /** `header.session` of the kernel's own messages; null until it has said something. */
  readonly kernelSession: string | null;
  /** Header (JSON text) of the request that the kernel is busy with, null when idle. */
  readonly busyParent: string | null;
  /** seq of the newest journal record, 0 when empty. */
  readonly lastSeq: number;
  /**
   * Only where the journal was cut when this keeper took over, or a kernel of the same id was lost with its machine: from this record
   * on, numbers may have been given to other messages before.
   */
  readonly renumberedFrom?: number;
  /** False while the keeper takes over and the kernel may still send again what was said before. */
  readonly isSettled?: boolean;
}

export interface TelemetryRecord {
  /** From 1 per kernel. */
  readonly seq: number;
  /** JSON text of one `TelemetryMessage`, checked to be an object with a string `type`. */
  readonly json: string;
}

export interface KeeperEvents {
  /** A journal record, pushed after it was written; in order, none left out from `liveFrom` on. */
  record(record: JournalRecord): void;
  /** Whether the payload of a large record of this channel is worth reading now; without this, it always is. Otherwise it comes abridged. */
  wantsPayload?(channel: number): boolean;
  state(snapshot: KernelSnapshot): void;
  telemetry(record: TelemetryRecord): void;
  /** The journal cannot be written (the kernel goes on), or can be again (null). A `gap` record tells what is missing. */
  journalFault?(fault: { readonly code: string; readonly message: string } | null): void;
  /** The socket to the keeper is gone. The handle is of no more use; look whether the keeper still lives. */
  disconnected(error: Error | null): void;
}

export interface KeeperHandle extends AsyncDisposable {
  readonly kernelId: string;
  /** Last known state, updated before `KeeperEvents.state` is called. */
  readonly snapshot: KernelSnapshot;
  /**
   * The state as the keeper has it now. Its `lastSeq` says which records it takes into account; states that are pushed may
   * arrive after records that are newer than they are.
   */
  status(): Promise<{ readonly snapshot: KernelSnapshot; readonly kernelInfo: string | null }>;
  /** Starts the push of live records. What comes before `liveFrom` is read from the journal's files. */
  subscribe(): Promise<{ liveFrom: number }>;
  /** Starts the push of telemetry after `since`; held history first. */
  subscribeTelemetry(since: number): Promise<{ historyFrom: number; lastSeq: number }>;
  /**
   * Sends a v1 frame to the kernel: journaled, signed, sent. False: the socket is congested, wait for `drain()`. The keeper
   * drops frames that are not a client's message (check them first, `decodeV1`), and all frames while the kernel is dead.
   */
  send(frame: Buffer): boolean;
  /** Rejects with `keeper_disconnected` once the socket is gone. */
  drain(): Promise<void>;
  /**
   * Passes a command for a run on to the agent. Resolves with its answer (accepted, or refused with a reason); rejects with
   * `control_unavailable` or `control_unanswered`.
   */
  control(command: ControlCommand): Promise<ControlMessage>;
  interrupt(): Promise<void>;
  /** Same kernel id, new process. Resolves when the new process has answered kernel_info; rejects with KeeperError. */
  restart(): Promise<KernelSnapshot>;
  /** Shutdown by the book; resolves when the process group is gone. The keeper ends afterwards. */
  shutdown(): Promise<void>;
}

/** From the start of the process to the answer to `kernel_info`. Slow disks and cold Python caches need tens of seconds. */
export const KERNEL_START_MS = 120_000;

/** A kernel that ran this long since it was ready has proved that it can: its earlier crashes no longer count. */
export const STABLE_MS = 10_000;

/** A kernel that is taken over and whose control thread is busy, with a debugger for example, is not waited for. */
export const PROOF_MS = 10_000;

/** For the answer to an `interrupt_request` on control. */
export const INTERRUPT_MS = 5_000;

/** From SIGKILL to the end of the process. Longer means uninterruptible sleep, which nobody can end. */
export const KILL_MS = 10_000;

/** For what a dead kernel has sent and nobody has read yet. */
export const DRAIN_MS = 2_000;
