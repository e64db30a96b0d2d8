/** Where a ZMQ socket is bound, as `net.connect` takes it. */
import type { NetConnectOpts } from 'node:net';
import { ZmtpError } from './zmtp-error.js';

/** `ipc://PATH` or `tcp://HOST:PORT`. Throws `zmtp_endpoint_invalid`. */
export function connectOptions(endpoint: string): NetConnectOpts {
  const ipc = /^ipc:\/\/(.+)$/.exec(endpoint)?.[1];
  if (ipc !== undefined) {
    // libzmq writes the abstract namespace of Linux with an @, Node with a NUL.
    return { path: ipc.startsWith('@') ? `\0${ipc.slice(1)}` : ipc };
  }
  const [, host, port] = /^tcp:\/\/\[?([^\]]+?)\]?:(\d{1,5})$/.exec(endpoint) ?? [];
  if (host === undefined || Number(port) < 1 || Number(port) > 65_535) {
    throw new ZmtpError(
      'zmtp_endpoint_invalid',
      `"${endpoint}" is not a valid ZMQ address; use ipc://PATH or tcp://HOST:PORT.`
    );
  }
  return { host, port: Number(port), noDelay: true };
}
