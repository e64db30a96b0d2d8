/** Where the gateway listens on TCP: the chosen address and port, and the IPv6 loopback beside the IPv4 one. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { App } from './app.js';
import type { HttpLimits } from './http-limits.js';
import { listenOnTwin } from './loopback-twin.js';
import { ServeError } from './server-errors.js';

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
    const chosen = port === 0 && host === '127.0.0.1' ? await portFreeOnBoth(http) : port;
    await app.listen({ host, port: chosen });
    const { port: actual } = app.server.address() as AddressInfo;
    const closeTwin = host === '127.0.0.1' ? await listenOnTwin(app.server, actual, http) : null;
    return { url: `http://${shownHost}:${actual}/`, close: closeTwin ?? (() => Promise.resolve()) };
  } catch (error) {
    const { code = 'unknown error', address = host } = error as NodeJS.ErrnoException & { address?: string };
    if (code === 'EADDRINUSE') {
      const message = `Port ${port} on ${address} is taken; choose another with --port, or 0 for a free one.`;
      throw new ServeError('address_in_use', message, { cause: error });
    }
    const message = `Cannot listen on ${host} port ${port} (${code}); choose another with --host and --port.`;
    throw new ServeError('address_unusable', message, { cause: error });
  }
}

/** A port that was free on 127.0.0.1 and on ::1 a moment ago; 0 when none was found, and then listening says why. */
async function portFreeOnBoth(http: HttpLimits): Promise<number> {
  for (let tries = 0; tries < FREE_PORT_TRIES; tries++) {
    const probe = createServer();
    try {
      await new Promise<void>((resolve, reject) => {
        probe.once('error', reject);
        probe.listen({ host: '127.0.0.1', port: 0 }, () => resolve());
      });
      const { port } = probe.address() as AddressInfo;
      const closeTwin = await listenOnTwin(probe, port, http);
      await closeTwin?.();
      return port;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    } finally {
      probe.close();
    }
  }
  return 0;
}
