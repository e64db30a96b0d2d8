/** Writes many lines, no faster than the reader reads them. */
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import type { Streams } from '../output.js';

export interface LineSink extends AsyncDisposable {
  /** Aborted when the reader has closed, as after `| head`. */
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
      if (pipe.write(`${line}\n`) === false && pipe.on)
        await once(pipe as NodeJS.WritableStream, 'drain', { signal: closed.signal });
    },
    [Symbol.asyncDispose]: async () => {
      // Errors of the last write arrive later; after a first error, the listener stays to catch them.
      if (!closed.signal.aborted) pipe.off?.('error', onError);
      return Promise.resolve();
    }
  };
}

/** A new file that only its owner can read, synced at the end; rejects with EEXIST if the file exists. */
export async function fileSink(file: string): Promise<LineSink> {
  const stream = createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true });
  await once(stream, 'open');
  const sink = streamSink(stream);
  return {
    closed: sink.closed,
    write: async line => {
      sink.closed.throwIfAborted();
      await sink.write(line);
    },
    [Symbol.asyncDispose]: async () => {
      // An error that a write has reported is not reported again.
      if (sink.closed.aborted) stream.destroy();
      else await finished(stream.end());
    }
  };
}
