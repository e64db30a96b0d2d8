/**
 * For specs: a loopback port that has no listener at this moment, for a server that is started, ended and restarted on it.
 * It is below the range that systems assign automatically, so that no connection gets it while there is no listener.
 */
import { randomInt } from 'node:crypto';
import { mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';

const FIRST = 20_000;
const COUNT = 12_000;
const TRIED = 50;
/** Contains a file for each port that was assigned, because its owner may take seconds until it listens. */
const ASSIGNED_PORTS = path.join(tmpdir(), `tpulab-ports-${userInfo().uid}`);
/** Longer than any server takes to start. */
const GIVEN_OUT_MS = 10 * 60_000;

export async function freePort(): Promise<number> {
  await mkdir(ASSIGNED_PORTS, { recursive: true });
  for (let attempt = 0; attempt < TRIED; attempt += 1) {
    const port = FIRST + randomInt(COUNT);
    if ((await takes(port)) && (await isFree(port))) return port;
  }
  throw new Error(`None of ${TRIED} ports was free.`);
}

/** Claims the port for this process for a while. */
async function takes(port: number): Promise<boolean> {
  const file = path.join(ASSIGNED_PORTS, String(port));
  const found = await stat(file).catch(() => null);
  if (found !== null && Date.now() - found.mtimeMs > GIVEN_OUT_MS) await rm(file, { force: true });
  return writeFile(file, '', { flag: 'wx' }).then(
    () => true,
    () => false
  );
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
