/** Where a kernel and its keeper meet: the Jupyter connection file, for `ipc` sockets in the kernel's run folder. */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { KeeperError } from './keeper-error.js';
import { writePrivateFile } from './keeper-file.js';

/** As in a connection file. With `ipc`, a socket's path is `<ip>-<port>`. */
export interface ConnectionInfo {
  readonly transport: 'ipc';
  readonly ip: string;
  readonly shell_port: number;
  readonly iopub_port: number;
  readonly stdin_port: number;
  readonly control_port: number;
  readonly hb_port: number;
  readonly key: string;
  readonly signature_scheme: string;
  readonly kernel_name: string;
}

/** `sun_path` less its closing zero: 104 bytes on macOS, 108 on Linux. */
const MAX_SOCKET_PATH = process.platform === 'darwin' ? 103 : 107;

export interface RunPaths {
  readonly keeperSocket: string;
  readonly agentSocket: string;
  /** Without the number of the port. */
  readonly zmqPrefix: string;
}

/** Throws `socket_path_too_long`. */
export function runPaths(runDir: string): RunPaths {
  const paths = {
    keeperSocket: join(runDir, 'keeper.sock'),
    agentSocket: join(runDir, 'agent.sock'),
    zmqPrefix: join(runDir, 'k')
  };
  const longest = Math.max(...Object.values(paths).map(path => Buffer.byteLength(path)));
  if (longest > MAX_SOCKET_PATH) {
    throw new KeeperError(
      'socket_path_too_long',
      `Sockets in ${runDir} would have paths of ${longest} bytes, this system allows ${MAX_SOCKET_PATH}; use a shorter run folder.`
    );
  }
  return paths;
}

export async function writeConnectionFile(
  file: string,
  runDir: string,
  kernelName: string
): Promise<ConnectionInfo> {
  const info: ConnectionInfo = {
    transport: 'ipc',
    ip: runPaths(runDir).zmqPrefix,
    shell_port: 1,
    iopub_port: 2,
    stdin_port: 3,
    control_port: 4,
    hb_port: 5,
    key: randomBytes(32).toString('hex'),
    signature_scheme: 'hmac-sha256',
    kernel_name: kernelName
  };
  await writePrivateFile(file, info);
  return info;
}

export function endpoint(info: ConnectionInfo, port: number): string {
  return `${info.transport}://${info.ip}-${port}`;
}

/** The kernel makes these; one that was killed leaves them behind. */
export async function removeKernelSockets(info: ConnectionInfo): Promise<void> {
  const { shell_port, iopub_port, stdin_port, control_port, hb_port } = info;
  await Promise.all(
    [shell_port, iopub_port, stdin_port, control_port, hb_port].map(port =>
      rm(`${info.ip}-${port}`, { force: true })
    )
  );
}
