/**
 * The same server on `[::1]`, for a gateway on 127.0.0.1.
 *
 * A browser resolves `localhost` to `::1` first. If the gateway left that address free, another user of this machine
 * could listen there on the gateway's port and be handed the token of a page that says `localhost`.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { boundStrangers, type HttpLimits, serverOptions } from './http-limits.js';

const IPV6_LOOPBACK = '::1';
/** There is no IPv6 on this machine, so nobody else can listen there either. */
const NO_IPV6 = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EINVAL', 'EPROTONOSUPPORT']);

export interface LoopbackTwin {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Listens on `[::1]` and hands every request and upgrade to `primary`.
 *
 * @param port 0: a free one
 * @returns null where the machine has no IPv6
 * @throws NodeJS.ErrnoException EADDRINUSE when somebody has that port there
 */
export async function listenOnTwin(
  primary: Server,
  port: number,
  http: HttpLimits
): Promise<LoopbackTwin | null> {
  const twin = createServer(serverOptions(http));
  twin.maxConnections = http.connections;
  boundStrangers(twin);
  twin.on('request', (request, response) => primary.emit('request', request, response));
  twin.on('upgrade', (request, stream, head) => primary.emit('upgrade', request, stream, head));
  twin.on('clientError', (error, stream) => primary.emit('clientError', error, stream));
  try {
    await new Promise<void>((resolve, reject) => {
      twin.once('error', reject);
      twin.listen({ host: IPV6_LOOPBACK, port, ipv6Only: true }, () => resolve());
    });
  } catch (error) {
    if (NO_IPV6.has((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
  return {
    port: (twin.address() as AddressInfo).port,
    close: () =>
      new Promise<void>(resolve => {
        twin.close(() => resolve());
        twin.closeAllConnections();
      })
  };
}
