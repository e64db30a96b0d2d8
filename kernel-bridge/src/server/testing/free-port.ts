/**
 * For specs: a port of the loopback address that nobody listens on at this moment, for a server that is started, ended and started
 * again there. It lies below those that systems give out by themselves, so that no connection gets it while nobody listens.
 */
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

const FIRST = 20_000;
const COUNT = 12_000;
const TRIED = 50;

export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < TRIED; attempt += 1) {
    const port = FIRST + randomInt(COUNT);
    if (await isFree(port)) return port;
  }
  throw new Error(`None of ${TRIED} ports was free.`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
