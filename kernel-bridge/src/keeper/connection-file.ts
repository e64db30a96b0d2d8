/** How a kernel and its keeper connect: the Jupyter connection file, for `ipc` sockets in the kernel's run folder. */
import { createHash, randomBytes } from 'node:crypto';
import { readFile, rm, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { integer, isShaped, object, oneOf, type Shaped, text } from '@tpulab/platform/shape.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import { writeForThisBoot } from '@tpulab/platform/write-atomically.js';

/** The fields of a connection file. With `ipc`, a socket's path is `<ip>-<port>`. */
const Connection = object(
  {
    transport: oneOf('ipc'),
    ip: text({ min: 1 }),
    shell_port: integer(),
    iopub_port: integer(),
    stdin_port: integer(),
    control_port: integer(),
    hb_port: integer(),
    key: text(),
    signature_scheme: text(),
    kernel_name: text()
  },
  /** Our own field: the socket on which the launcher offers unconfirmed messages. Other kernels ignore it. */
  { resend_socket: text() }
);
export type ConnectionInfo = Shaped<typeof Connection>;

/** `sun_path` less its closing zero: 104 bytes on macOS, 108 on Linux. */
const MAX_SOCKET_PATH = process.platform === 'darwin' ? 103 : 107;

/** The buffer of xeus for an address has 32 bytes. */
const MAX_XEUS_ADDRESS = 31;

/** Throws `socket_path_too_long`. */
export function runPaths(runDir: string) {
  const paths = {
    keeperSocket: join(runDir, 'keeper.sock'),
    agentSocket: join(runDir, 'agent.sock'),
    resendSocket: join(runDir, 'resend.sock'),
    /** Without the port number. */
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
  const { zmqPrefix, resendSocket } = runPaths(runDir);
  const info: ConnectionInfo = {
    transport: 'ipc',
    ip: zmqPrefix,
    shell_port: 1,
    iopub_port: 2,
    stdin_port: 3,
    control_port: 4,
    hb_port: 5,
    key: randomBytes(32).toString('hex'),
    signature_scheme: 'hmac-sha256',
    kernel_name: kernelName,
    resend_socket: resendSocket
  };
  await writeForThisBoot(file, info);
  return info;
}

export interface ShortConnection {
  readonly file: string;
  remove(): Promise<void>;
}

/**
 * xeus, and so every kernel built with it, ends with "Invalid argument" when a socket's address has more than 31 bytes.
 * Such a kernel gets a short link to the folder of its sockets; call `remove` when the kernel has ended. Null: the
 * addresses are short, or the kernel accepts long ones.
 */
export async function shortConnection(
  file: string,
  argv: readonly string[]
): Promise<ShortConnection | null> {
  const info = await readConnectionFile(file);
  const takesLong = argv.some(argument => /^(ipykernel|tpulab\.)/.test(argument));
  if (takesLong || endpoint(info, info.hb_port).length <= MAX_XEUS_ADDRESS) return null;
  const link = `/tmp/tk-${randomBytes(5).toString('hex')}`;
  const short = file.replace(/(\.json)?$/, '-short.json');
  await symlink(dirname(info.ip), link);
  await writeForThisBoot(short, { ...info, ip: join(link, basename(info.ip)) });
  const remove = async (): Promise<void> => {
    await Promise.all([link, short].map(each => rm(each, { force: true })));
  };
  return { file: short, remove };
}

/** The connection file that an earlier keeper has written. Throws `launch_invalid`. */
export async function readConnectionFile(file: string): Promise<ConnectionInfo> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new KeeperError('launch_invalid', `${file} cannot be read as JSON; restart the kernel.`, { cause });
  }
  if (!isShaped(Connection, value)) {
    throw new KeeperError(
      'launch_invalid',
      `${file} is not a TPULab connection file: ${Connection.fault(value)}; restart the kernel.`
    );
  }
  return value;
}

/**
 * The identity of a keeper at a kernel's ROUTER sockets. The same for every keeper of one kernel, so that a keeper that
 * takes over gets the replies and the `input_request`s that were meant for its predecessor.
 */
export function routingIdOf(info: ConnectionInfo): string {
  return `tpulab-${derived(info, 'routing id')}`;
}

/** The session of the keeper's own requests, also the same for every keeper of one kernel; see `OwnMessages`. */
export function keeperSessionOf(info: ConnectionInfo): string {
  return `tpulab-keeper-${derived(info, 'session')}`;
}

/** Reveals nothing about the key, and differs between kernels because their keys differ. */
function derived(info: ConnectionInfo, purpose: string): string {
  return createHash('sha256').update(`${purpose}\0${info.key}`).digest('hex').slice(0, 32);
}

export function endpoint(info: ConnectionInfo, port: number): string {
  return `${info.transport}://${info.ip}-${port}`;
}

/** The kernel creates these sockets; a kernel that was killed leaves them behind. */
export async function removeKernelSockets(info: ConnectionInfo): Promise<void> {
  const { shell_port, iopub_port, stdin_port, control_port, hb_port, resend_socket } = info;
  const paths = [shell_port, iopub_port, stdin_port, control_port, hb_port].map(port => `${info.ip}-${port}`);
  if (resend_socket !== undefined) paths.push(resend_socket);
  await Promise.all(paths.map(path => rm(path, { force: true })));
}
