/** Where the gateway listens on TCP: the chosen address and port, and the IPv6 loopback beside the IPv4 one. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { App } from './app.js';
import { limitUnauthenticated, type HttpLimits, serverOptions } from './http-limits.js';
import { ServeError } from '@tpulab/platform/errors.js';

const IPV4_LOOPBACK = '127.0.0.1';
/** How many free ports are tried until one is free on both loopback addresses. */
const FREE_PORT_TRIES = 10;

/**
 * Listens on `host`, and on `[::1]` too when that is 127.0.0.1.
 *
 * @throws ServeError `address_in_use`, `address_unusable`
 */
export async function listen(
  app: App,
  host: string,
  port: number,
  http: HttpLimits
): Promise<{ url: string; close: () => Promise<void> }> {
  const shownHost = host.includes(':') ? `[${host}]` : host;
  try {
    let ipv6Server: LoopbackTwin | null = null;
    if (host === IPV4_LOOPBACK) ipv6Server = await listenOnBoth(app, port, http);
    else await app.listen({ host, port });
    const { port: actual } = app.server.address() as AddressInfo;
    return { url: `http://${shownHost}:${actual}/`, close: () => ipv6Server?.close() ?? Promise.resolve() };
  } catch (error) {
    const { code = 'unknown error', address = host } = error as NodeJS.ErrnoException & { address?: string };
    if (code === 'EADDRINUSE') {
      const message = `Port ${port} on ${address} is in use; choose another with --port, or 0 for a free one.`;
      throw new ServeError('address_in_use', message, { cause: error });
    }
    const message = `Cannot listen on ${host} port ${port} (${code}); choose another with --host and --port.`;
    throw new ServeError('address_unusable', message, { cause: error });
  }
}

/**
 * Listens on the same port of both loopback addresses. A port that the system chooses is reserved from the moment that it
 * is found.
 */
async function listenOnBoth(app: App, port: number, http: HttpLimits): Promise<LoopbackTwin | null> {
  await app.ready();
  for (let tries = 1; ; tries++) {
    const ipv6Server = port === 0 ? await listenOnTwin(app.server, 0, http) : null;
    try {
      await app.listen({ host: IPV4_LOOPBACK, port: ipv6Server?.port ?? port });
      return ipv6Server ?? (await listenOnTwin(app.server, (app.server.address() as AddressInfo).port, http));
    } catch (error) {
      await ipv6Server?.close();
      const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      if (ipv6Server === null || !isTaken || tries === FREE_PORT_TRIES) throw error;
    }
  }
}

const IPV6_LOOPBACK = '::1';
/** Errors that mean there is no IPv6 on this machine, so no program can listen on it either. */
const NO_IPV6 = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EINVAL', 'EPROTONOSUPPORT']);

/**
 * The same server on `[::1]`, for a server on 127.0.0.1.
 *
 * A browser resolves `localhost` to `::1` first. If that address were free, another user of this machine could listen on the
 * same port and receive the token of a page that uses `localhost`.
 */
interface LoopbackTwin {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Listens on `[::1]` and hands every request and upgrade to `primary`.
 *
 * @param port 0: a free one
 * @returns null where the machine has no IPv6
 * @throws NodeJS.ErrnoException EADDRINUSE when another program has that port there
 */
async function listenOnTwin(primary: Server, port: number, http: HttpLimits): Promise<LoopbackTwin | null> {
  const ipv6Server = createServer(serverOptions(http));
  ipv6Server.maxConnections = http.connections;
  limitUnauthenticated(ipv6Server);
  ipv6Server.on('request', (request, response) => primary.emit('request', request, response));
  ipv6Server.on('upgrade', (request, stream, head) => primary.emit('upgrade', request, stream, head));
  ipv6Server.on('clientError', (error, stream) => primary.emit('clientError', error, stream));
  try {
    await new Promise<void>((resolve, reject) => {
      ipv6Server.once('error', reject);
      ipv6Server.listen({ host: IPV6_LOOPBACK, port, ipv6Only: true }, () => resolve());
    });
  } catch (error) {
    if (NO_IPV6.has((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
  return {
    port: (ipv6Server.address() as AddressInfo).port,
    close: () =>
      new Promise<void>(resolve => {
        ipv6Server.close(() => resolve());
        ipv6Server.closeAllConnections();
      })
  };
}
