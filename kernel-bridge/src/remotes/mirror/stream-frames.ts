/** Extracts the frames of a journal stream from its bytes, which arrive in arbitrary pieces. */
import { STREAM_FRAME, STREAM_FRAME_HEADER_BYTES, StreamNote } from '@tpulab/protocol';
import { Value } from '@sinclair/typebox/value';

type StreamFrame =
  | { readonly kind: 'records'; readonly bytes: Buffer }
  | { readonly kind: 'note'; readonly note: StreamNote }
  /** Records that are too large for memory; the mirror has a gap in their place. */
  | { readonly kind: 'skipped'; readonly bytes: number };

/** The largest frame that is buffered in memory. A remote announces the size of each frame. */
export const MAX_FRAME_BYTES = 32 * 1024 * 1024;
/** The largest possible record of a journal, with its framing. */
const MAX_RECORD_BYTES = 513 * 1024 * 1024;
/** A note has at most twenty paths of documents. */
const NOTE_BYTES = 256 * 1024;
/** Smaller frames need no reservation; a connection buffers about as much anyway. */
const SMALL_BYTES = 256 * 1024;

/** The other end does not follow the protocol, or a byte changed in transit. */
export class StreamError extends Error {
  override readonly name = 'StreamError';
}

/**
 * Memory for the large frames of one remote, whatever the number of its kernels. If none is free, a kernel waits and its stream
 * pauses.
 */
export class FrameBudget {
  #free = 2 * MAX_FRAME_BYTES;
  #waiting: { readonly bytes: number; readonly resolve: () => void }[] = [];

  /** @throws if `signal` ends the wait */
  async take(bytes: number, signal?: AbortSignal): Promise<Disposable> {
    signal?.throwIfAborted();
    if (this.#waiting.length > 0 || bytes > this.#free) await this.#turn(bytes, signal);
    else this.#free -= bytes;
    return { [Symbol.dispose]: () => this.#release(bytes) };
  }

  #turn(bytes: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const turn = {
        bytes,
        resolve: (): void => {
          signal?.removeEventListener('abort', leave);
          resolve();
        }
      };
      const leave = (): void => {
        this.#waiting = this.#waiting.filter(each => each !== turn);
        reject(new StreamError('nobody waits for this frame any more'));
        this.#release(0);
      };
      signal?.addEventListener('abort', leave, { once: true });
      this.#waiting.push(turn);
    });
  }

  #release(bytes: number): void {
    this.#free += bytes;
    for (let next = this.#waiting[0]; next && next.bytes <= this.#free; next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#free -= next.bytes;
      next.resolve();
    }
  }
}

interface FramesOptions {
  /** Shared by all kernels of a remote. */
  readonly budget?: FrameBudget;
  readonly signal?: AbortSignal;
}

export async function* framesOf(
  source: AsyncIterable<Buffer>,
  { budget = new FrameBudget(), signal }: FramesOptions = {}
): AsyncGenerator<StreamFrame, void, void> {
  let chunks: Buffer[] = [];
  let buffered = 0;
  let needed = STREAM_FRAME_HEADER_BYTES;
  let lease: Disposable | null = null;
  let skipped = { bytes: 0, left: 0 };
  try {
    for await (const read of source) {
      const passed = Math.min(skipped.left, read.length);
      skipped.left -= passed;
      const chunk = read.subarray(passed);
      if (skipped.bytes > 0 && skipped.left === 0) {
        yield { kind: 'skipped', bytes: skipped.bytes };
        skipped = { bytes: 0, left: 0 };
      }
      chunks.push(chunk);
      buffered += chunk.length;
      if (buffered < needed) continue;
      let bytes = chunks.length === 1 ? chunk : Buffer.concat(chunks, buffered);
      for (;;) {
        needed = STREAM_FRAME_HEADER_BYTES;
        if (bytes.length < needed) break;
        const length = lengthOf(bytes);
        needed += length;
        if (length > MAX_FRAME_BYTES) {
          const there = Math.min(bytes.length, needed);
          skipped = { bytes: length, left: needed - there };
          needed = STREAM_FRAME_HEADER_BYTES;
          bytes = bytes.subarray(there);
          if (skipped.left > 0) break;
          yield { kind: 'skipped', bytes: length };
          skipped = { bytes: 0, left: 0 };
          continue;
        }
        if (bytes.length < needed) {
          if (length > SMALL_BYTES) lease ??= await budget.take(length, signal);
          break;
        }
        yield frameOf(bytes.readUInt8(4), bytes.subarray(STREAM_FRAME_HEADER_BYTES, needed));
        lease?.[Symbol.dispose]();
        lease = null;
        bytes = bytes.subarray(needed);
      }
      chunks = bytes.length === 0 ? [] : [bytes];
      buffered = bytes.length;
    }
  } finally {
    lease?.[Symbol.dispose]();
  }
}

/** Body length of the frame that begins here. */
function lengthOf(bytes: Buffer): number {
  const length = bytes.readUInt32LE(0);
  const most = bytes.readUInt8(4) === STREAM_FRAME.records ? MAX_RECORD_BYTES : NOTE_BYTES;
  if (length > most) throw new StreamError(`a frame of ${length} bytes is impossible`);
  return length;
}

function frameOf(type: number, body: Buffer): StreamFrame {
  if (type === STREAM_FRAME.records) return { kind: 'records', bytes: body };
  if (type !== STREAM_FRAME.note) throw new StreamError(`there is no frame of type ${type}`);
  let note: unknown;
  try {
    note = JSON.parse(body.toString('utf8'));
  } catch (cause) {
    throw new StreamError('a note is not JSON', { cause });
  }
  if (!Value.Check(StreamNote, note)) throw new StreamError('a note is not of a known kind');
  return { kind: 'note', note };
}
