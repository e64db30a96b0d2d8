/** Where the parts of this folder meet: reaching a host (`ssh`), and preparing it (`setup`). Interfaces only. */
import type { RemoteCheck, RemoteStage } from '@tpulab/protocol';

export interface ShellResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ShellOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** Written to the program's standard input, which is then closed. */
  readonly stdin?: string | Uint8Array;
  /** Each line of standard output as it comes. */
  readonly onLine?: (line: string) => void;
}

/** Runs programs on one host, over the connection that is already authenticated. */
export interface RemoteShell {
  /** For people. */
  readonly host: string;
  /** What a start-up file there prints before our scripts; absent or null: nothing. */
  readonly noise?: string | null;
  /**
   * Runs a POSIX sh script with arguments (`$1`, …), which are quoted here. A code other than 0 is a result, not an error.
   * Throws a typed error when the connection is lost, the time is over or the signal fires.
   */
  run(script: string, args: readonly string[], options: ShellOptions): Promise<ShellResult>;
  /** Copies one file there, beside its place and renamed into it; resumes what a lost connection left. */
  upload(
    localPath: string,
    remotePath: string,
    options: { readonly signal: AbortSignal; readonly onProgress?: (bytes: number, total: number) => void }
  ): Promise<void>;
}

export interface SetupOptions {
  /** Name of the environment to have there: `jax`, `torch-xla`, `torch-tpu`. */
  readonly environment: string;
  /** What a person had added to it on the machine that was there before, as lines of a requirements file. */
  readonly added?: readonly string[];
  /**
   * Who sends files there, letters and digits: the same at each attempt, so that a copy that broke off goes on, and nobody else's,
   * so that two who send the same file at once do not write into one.
   */
  readonly sender: string;
  /** Of a slice: kernels there use the chips of their host alone; absent: as it was. */
  readonly hostOnly?: boolean;
  /** A person insists that a gateway of another build ends for ours. */
  readonly takeOver?: boolean;
  readonly signal: AbortSignal;
  readonly onStage: (stage: RemoteStage) => void;
  readonly onCheck: (check: RemoteCheck) => void;
  /** Free text for the remote's log. */
  readonly onLog: (line: string) => void;
}

/** A host with a gateway that serves on a unix socket. */
export interface PreparedHost {
  readonly socketPath: string;
  readonly token: string;
  readonly gatewayId: string;
  /** Of the bridge that runs there. */
  readonly version: string;
  /** Absent: nothing was put there. */
  readonly equipped?: EquippedHost;
}

/** What was put on a host; both paths are absolute. */
export interface EquippedHost {
  readonly folder: string;
  /** Of the environment. */
  readonly python: string;
}

/** How the gateway of a remote is reached, for as long as it is. */
export interface ReachableRemote {
  readonly name: string;
  /** Unix socket on this machine. */
  readonly socketPath: string;
  readonly token: string;
  readonly gatewayId: string;
}

/** Makes a host ready; what is there already is left as it is, so that calling it again is quick. */
export interface HostSetup {
  prepare(shell: RemoteShell, options: SetupOptions): Promise<PreparedHost>;
  /** The same without a gateway, for the other hosts of a slice. Absent: nothing is put on any host. */
  readonly equip?: (shell: RemoteShell, options: SetupOptions) => Promise<EquippedHost>;
  /** Stops what runs there and removes all that `prepare` made. */
  clean(shell: RemoteShell, options: CleanOptions): Promise<void>;
}

export type CleanOptions = Pick<SetupOptions, 'signal' | 'onStage' | 'onCheck' | 'onLog'>;
