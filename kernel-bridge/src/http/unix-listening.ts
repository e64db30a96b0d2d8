/**
 * Listening on a unix socket, for use through `ssh -L PORT:SOCKET`: no other user of the machine can reach it, unlike
 * a port of 127.0.0.1. The socket is 0600 in a folder that only this user can enter.
 */
import { chmod, lstat, rm } from 'node:fs/promises';
import { makeFolder } from '@tpulab/platform/missing-files.js';
import { connect } from 'node:net';
import path from 'node:path';
import type { App } from './app.js';
import { socketFolder } from '@tpulab/platform/socket-folder.js';
import { ServeError } from '@tpulab/platform/errors.js';

/** `sun_path` holds 104 bytes on macOS and 108 on Linux, with the closing zero. */
const SOCKET_PATH_BYTES = 103;

const SOCKET_NAME = 'gateway.sock';

/** The default path of the socket; its folder is created. */
export function defaultSocketPath(stateDir: string): string {
  const room = SOCKET_PATH_BYTES - SOCKET_NAME.length - 1;
  return path.join(socketFolder(path.join(stateDir, 'run'), room, { odd: true }), SOCKET_NAME);
}

/** As jupyter_server writes the URL of a server on a unix socket. */
function socketUrl(socketPath: string): string {
  return `http+unix://${encodeURIComponent(socketPath)}/`;
}

/** The path of the socket in such a URL; null for any other URL. */
export function socketPathOf(url: string): { socketPath: string; base: string } | null {
  const match = /^http\+unix:\/\/([^/]+)(\/.*)$/.exec(url);
  if (match?.[1] === undefined || match[2] === undefined) return null;
  return { socketPath: decodeURIComponent(match[1]), base: match[2] };
}

/** @throws ServeError `socket_unusable`, `address_in_use` */
export async function listenOnSocket(
  app: App,
  socketPath: string
): Promise<{ url: string; close: () => Promise<void> }> {
  if (Buffer.byteLength(socketPath) > SOCKET_PATH_BYTES) {
    throw new ServeError(
      'socket_unusable',
      `The path ${socketPath} is longer than ${SOCKET_PATH_BYTES} bytes, the limit for a unix socket; choose a shorter one with --unix-socket.`
    );
  }
  await ownFolder(path.dirname(socketPath));
  await removeStale(socketPath);
  try {
    await app.listen({ path: socketPath });
    await chmod(socketPath, 0o600);
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    throw new ServeError(
      'socket_unusable',
      `Cannot listen on ${socketPath} (${code}); choose another path with --unix-socket.`,
      { cause: error }
    );
  }
  return { url: socketUrl(socketPath), close: () => rm(socketPath, { force: true }) };
}

/** Created if it does not exist. A folder that others can enter is refused rather than changed: others may use it. */
async function ownFolder(folder: string): Promise<void> {
  try {
    await makeFolder(folder, 0o700);
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    throw new ServeError(
      'socket_unusable',
      `The folder ${folder} cannot be created (${code}); choose another.`,
      {
        cause: error
      }
    );
  }
  // lstat, because the creator of a link could redirect it later.
  const found = await lstat(folder);
  const { mode, uid } = found;
  if (!found.isDirectory() || (mode & 0o077) !== 0 || uid !== process.getuid?.()) {
    throw new ServeError(
      'socket_unusable',
      `The folder ${folder} is a link, or other users have access to it; restrict it with chmod 700, or choose another folder for the socket.`
    );
  }
}

/** A killed gateway leaves its socket behind; a socket that still answers is not ours to remove. */
async function removeStale(socketPath: string): Promise<void> {
  const found = await lstat(socketPath).catch(() => null);
  if (found === null) return;
  if (!found.isSocket()) {
    throw new ServeError('socket_unusable', `${socketPath} exists and is not a socket; choose another path.`);
  }
  const isAnswered = await new Promise<boolean>(resolve => {
    const probe = connect(socketPath);
    probe.once('connect', () => resolve(true)).once('error', () => resolve(false));
    probe.once('connect', () => probe.destroy());
  });
  if (isAnswered) {
    throw new ServeError(
      'address_in_use',
      `Another program is listening on ${socketPath}; choose another path with --unix-socket.`
    );
  }
  await rm(socketPath, { force: true });
}
