/** Connects to a running keeper, or reports why none can be reached. */
import { connect, type Socket } from 'node:net';
import { basename } from 'node:path';
import type { KeeperEvents } from '../keeper-protocol/contract.js';
import { FRAME_HEADER_BYTES, FrameType, MAX_FRAME_BYTES } from '../keeper-protocol/frames.js';
import { KeeperClient } from './client.js';
import { keeperElsewhere, KeeperError, KeeperEndedError } from '../keeper-protocol/keeper-error.js';
import { type KeeperRecord, kernelPaths, presenceOfKernel } from '../keeper-protocol/keeper-file.js';
import { type KeeperEvent, parseEvent } from '../keeper-protocol/messages.js';
import { isSameProcess } from '@tpulab/platform/process-identity.js';
import { holderOf } from '@tpulab/platform/process-lock.js';
import { deadline } from '@tpulab/platform/waiting.js';

const HELLO_MS = 10_000;

interface AttachOptions {
  /** Timeout for the connection and the keeper's first frame. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Rejects with `KeeperEndedError` when the keeper has ended, and with `KeeperError` when it runs but does not answer, which
 * worth a retry.
 */
export async function attachKeeper(
  kernelDir: string,
  events: KeeperEvents,
  options: AttachOptions = {}
): Promise<KeeperClient> {
  const { record, elsewhere } = await presenceOfKernel(kernelDir);
  if (elsewhere !== null) throw keeperElsewhere(basename(kernelDir), elsewhere);
  if (record === null) throw await explainAbsence(kernelDir);
  let socket: Socket | null = null;
  try {
    using within = deadline(options.timeoutMs ?? HELLO_MS, options.signal);
    const { signal } = within;
    signal.throwIfAborted();
    // Without the signal: as a socket option, it would cut the connection at the deadline, even after hello.
    socket = connect({ path: record.socketPath });
    const hello = await readHello(socket, signal);
    return new KeeperClient(kernelDir, socket, hello, events);
  } catch (cause) {
    socket?.destroy();
    options.signal?.throwIfAborted();
    if (cause instanceof KeeperError) throw cause;
    throw await explainSilence(record, cause);
  }
}

/**
 * Why there is no `keeper.json`. A gateway that was killed may have started a keeper that has not written it yet: that
 * keeper has a kernel, or soon will, and no other code would find it.
 */
async function explainAbsence(kernelDir: string): Promise<KeeperError> {
  const kernelId = basename(kernelDir);
  const holder = await holderOf(kernelPaths(kernelDir).lock);
  return holder === null
    ? new KeeperEndedError({ kernelId, keeperPid: null, orphanPid: null })
    : new KeeperError(
        'keeper_timeout',
        `The keeper of kernel ${kernelId} (process ${holder.pid}) is not listening yet; see its keeper.log.`
      );
}

/** Why the keeper does not answer. */
async function explainSilence(record: KeeperRecord, cause: unknown): Promise<KeeperError> {
  const { kernelId, pid, kernelPid } = record;
  if (await isSameProcess(pid, record.processStart)) {
    return new KeeperError(
      'keeper_timeout',
      `The keeper of kernel ${kernelId} (process ${pid}) is running, but does not answer on its socket; see its keeper.log.`,
      { cause }
    );
  }
  const orphaned = kernelPid !== null && (await isSameProcess(kernelPid, record.kernelProcessStart));
  return new KeeperEndedError(
    { kernelId, keeperPid: pid, orphanPid: orphaned ? kernelPid : null },
    { cause }
  );
}

/** Reads the first frame. Later frames stay in the socket. */
function readHello(socket: Socket, signal: AbortSignal): Promise<Extract<KeeperEvent, { event: 'hello' }>> {
  return new Promise((resolve, reject) => {
    let bytes = Buffer.alloc(0);
    const settle = (act: () => void): void => {
      socket.off('data', onData).off('close', onClose);
      signal.removeEventListener('abort', onAbort);
      act();
    };
    const onAbort = (): void => settle(() => reject(signal.reason as Error));
    const onClose = (): void =>
      settle(() =>
        reject(
          Object.assign(new Error('The socket was closed before the first frame.'), { code: 'ECONNRESET' })
        )
      );
    const onData = (chunk: Buffer): void => {
      bytes = Buffer.concat([bytes, chunk]);
      const length = bytes.length >= FRAME_HEADER_BYTES ? bytes.readUInt32LE(0) : Infinity;
      if (bytes.length < 4 + length && (length === Infinity || length <= MAX_FRAME_BYTES)) return;
      settle(() => {
        socket.pause();
        const event =
          bytes[4] === FrameType.event ? parseEvent(bytes.subarray(FRAME_HEADER_BYTES, 4 + length)) : null;
        if (event?.event !== 'hello') {
          reject(new KeeperError('keeper_protocol', "The program on the keeper's socket is not a keeper."));
          return;
        }
        socket.unshift(bytes.subarray(4 + length));
        resolve(event);
      });
    };
    socket.on('data', onData).on('close', onClose);
    // Stays until the socket has closed: an error after the client took over is its `close`.
    socket.on('error', error => settle(() => reject(error)));
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
