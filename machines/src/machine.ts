/** The interfaces of a machine: its connection and shell (`ssh` has one), and the preparation of its hosts (`setup`). */
import type { RemoteCheck, RemoteSsh, RemoteStage } from '@tpulab/protocol';
import { type RemoteProblem, RemoteQueued } from './remote-error.js';

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
  /** Receives each line of standard output as it arrives. */
  readonly onLine?: (line: string) => void;
}

/** Runs programs on one host, over the authenticated connection. */
export interface RemoteShell {
  /** Name of the host, for people. */
  readonly host: string;
  /** Output of a start-up file there before our scripts; omitted or null if there is none. */
  readonly noise?: string | null;
  /**
   * Runs a POSIX sh script with arguments (`$1`, …), which are quoted here. A nonzero exit code is a result, not an error.
   * Throws a typed error when the connection is lost, the time limit expires or the signal fires.
   */
  run(script: string, args: readonly string[], options: ShellOptions): Promise<ShellResult>;
  /**
   * Copies one file to the host under a temporary name, and renames it into place; resumes an upload that a lost connection
   * interrupted.
   */
  upload(
    localPath: string,
    remotePath: string,
    options: { readonly signal: AbortSignal; readonly onProgress?: (bytes: number, total: number) => void }
  ): Promise<void>;
}

/**
 * An open connection to one computer: everything that this package needs of it. ssh is one implementation; a Slurm job, a
 * pod or a container would be another (docs/new-machine.md).
 */
export interface Machine extends AsyncDisposable {
  readonly shell: RemoteShell;
  readonly isOver: boolean;
  /** Resolves with the reason after the connection has ended. */
  readonly lost: Promise<RemoteProblem>;
  /** For programs of this user that use their own terminal or ssh; null: the machine is not reached by ssh. */
  readonly ssh: RemoteSsh | null;
  /** Unix socket on this computer, which leads to the last forwarded one. */
  readonly socketPath: string;
  /** Connects `socketPath` to a unix socket there, replacing the earlier one. */
  forward(there: string, signal: AbortSignal): Promise<void>;
  /**
   * Called while the forwarded socket does not answer. True: it is now forwarded in another way. Throws if no other way is
   * left. Omitted if there is only one way.
   */
  readonly reroute?: (there: string, signal: AbortSignal) => Promise<boolean>;
}

export interface SetupOptions {
  /** Name of the environment to install: `jax`, `torch-xla`, `torch-tpu`. */
  readonly environment: string;
  /** Packages that a person had added to it on the previous machine, as lines of a requirements file. */
  readonly added?: readonly string[];
  /**
   * Identifies the sender of the files, in letters and digits. It is the same at each attempt, so that an interrupted copy
   * resumes, and unique, so that two senders of the same file do not write into the same copy.
   */
  readonly sender: string;
  /** On a slice: kernels use only the chips of their own host. If omitted: unchanged. */
  readonly hostOnly?: boolean;
  /** A person confirmed that our gateway replaces a gateway of another build. */
  readonly takeOver?: boolean;
  readonly signal: AbortSignal;
  readonly onStage: (stage: RemoteStage) => void;
  readonly onCheck: (check: RemoteCheck) => void;
  /** Receives free text for the remote's log. */
  readonly onLog: (line: string) => void;
}

/** A host whose gateway serves on a unix socket. */
export interface PreparedHost {
  readonly socketPath: string;
  readonly token: string;
  readonly gatewayId: string;
  /** Version of the bridge that runs on the host. */
  readonly version: string;
  /** Omitted if nothing was installed on the host. */
  readonly equipped?: EquippedHost;
}

/** The installation on a host; both paths are absolute. */
export interface EquippedHost {
  readonly folder: string;
  readonly python: string;
}

/** How to reach the gateway of a remote while it is reachable. */
export interface ReachableRemote {
  readonly name: string;
  /** Unix socket on this machine. */
  readonly socketPath: string;
  readonly token: string;
  readonly gatewayId: string;
}

/** Makes a host ready; an existing installation stays unchanged, so that a second call is quick. */
export interface HostSetup {
  prepare(shell: RemoteShell, options: SetupOptions): Promise<PreparedHost>;
  /** The same without a gateway, for the other hosts of a slice. Omitted if nothing is installed on any host. */
  readonly equip?: (shell: RemoteShell, options: SetupOptions) => Promise<EquippedHost>;
  /** Stops the gateway and its kernels there, and removes everything that `prepare` made. */
  clean(shell: RemoteShell, options: CleanOptions): Promise<void>;
}

export type CleanOptions = Pick<SetupOptions, 'signal' | 'onStage' | 'onCheck' | 'onLog'>;

/** Shows a stage while `work` runs, and its result. `detail` replaces the text shown meanwhile. */
export async function staged<T>(
  { onStage, signal }: { readonly onStage: (stage: RemoteStage) => void; readonly signal: AbortSignal },
  name: string,
  title: string,
  work: (detail: (text: string) => void) => Promise<T>
): Promise<T> {
  const show = (state: RemoteStage['state'], detail: string | null = null): void =>
    onStage({ name, title, state, detail, fraction: null });
  show('running');
  try {
    const value = await work(text => show('running', text));
    show('done');
    return value;
  } catch (error) {
    if (error instanceof RemoteQueued) show('running', error.queue.state);
    else if (!signal.aborted) show('failed');
    throw error;
  }
}
