/** Where the gateway listens on TCP: the chosen address and port, and the IPv6 loopback beside the IPv4 one. */
import type { AddressInfo } from 'node:net';
import type { App } from './app.js';
import type { HttpLimits } from './http-limits.js';
import { listenOnTwin, type LoopbackTwin } from './loopback-twin.js';
import { ServeError } from './server-errors.js';

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
    let twin: LoopbackTwin | null = null;
    if (host === IPV4_LOOPBACK) twin = await listenOnBoth(app, port, http);
    else await app.listen({ host, port });
    const { port: actual } = app.server.address() as AddressInfo;
    return { url: `http://${shownHost}:${actual}/`, close: () => twin?.close() ?? Promise.resolve() };
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

/** With the same port on both loopback addresses. One that the system chooses is held from the moment that it is found. */
async function listenOnBoth(app: App, port: number, http: HttpLimits): Promise<LoopbackTwin | null> {
  await app.ready();
  for (let tries = 1; ; tries++) {
    const twin = port === 0 ? await listenOnTwin(app.server, 0, http) : null;
    try {
      await app.listen({ host: IPV4_LOOPBACK, port: twin?.port ?? port });
      return twin ?? (await listenOnTwin(app.server, (app.server.address() as AddressInfo).port, http));
    } catch (error) {
      await twin?.close();
      const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      if (twin === null || !isTaken || tries === FREE_PORT_TRIES) throw error;
    }
  }
}
