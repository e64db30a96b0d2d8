/** Where many lines go, no faster than they are taken. */
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import type { Streams } from '../output.js';

export interface LineSink extends AsyncDisposable {
  /** Aborted when nobody reads any more, as after `| head`. */
  readonly closed: AbortSignal;
  write(line: string): Promise<void>;
}

interface Pipe {
  write(text: string): unknown;
  on?(event: 'error', listener: (error: NodeJS.ErrnoException) => void): unknown;
  off?(event: 'error', listener: (error: NodeJS.ErrnoException) => void): unknown;
}

export function streamSink(stream: Streams['stdout']): LineSink {
  const pipe: Pipe = stream;
  const closed = new AbortController();
  const onError = (error: NodeJS.ErrnoException): void => closed.abort(error);
  pipe.on?.('error', onError);
  return {
    closed: closed.signal,
    write: async line => {
      const hasRoom = pipe.write(`${line}\n`);
      if (hasRoom === false && pipe.on) {
        await once(pipe as NodeJS.WritableStream, 'drain', { signal: closed.signal });
      }
    },
    [Symbol.asyncDispose]: async () => {
      // Errors of the last write come later; the listener stays for them where there has been one.
      if (!closed.signal.aborted) pipe.off?.('error', onError);
      return Promise.resolve();
    }
  };
}

/** A new file for its owner alone; rejects with EEXIST when there is one. */
export async function fileSink(file: string): Promise<LineSink> {
  const handle = await open(file, 'wx', 0o600);
  const pending: string[] = [];
  let bytes = 0;
  const flush = async (): Promise<void> => {
    bytes = 0;
    await handle.writeFile(pending.splice(0).join(''));
  };
  return {
    closed: new AbortController().signal,
    write: async line => {
      pending.push(line, '\n');
      bytes += line.length;
      if (bytes > 64 * 1024) await flush();
    },
    [Symbol.asyncDispose]: async () => {
      try {
        await flush();
        await handle.sync();
      } finally {
        await handle.close();
      }
    }
  };
}
