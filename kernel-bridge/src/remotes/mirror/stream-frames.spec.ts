import { STREAM_FRAME, STREAM_FRAME_HEADER_BYTES } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { FrameBudget, framesOf, MAX_FRAME_BYTES, StreamError } from './stream-frames.js';

const MIB = 2 ** 20;

function head(length: number, type: number = STREAM_FRAME.records): Buffer {
  const bytes = Buffer.alloc(STREAM_FRAME_HEADER_BYTES);
  bytes.writeUInt32LE(length, 0);
  bytes.writeUInt8(type, 4);
  return bytes;
}

async function* pieces(...parts: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* parts;
}

async function read(source: AsyncIterable<Buffer>): Promise<(number | string)[]> {
  const seen: (number | string)[] = [];
  for await (const frame of framesOf(source))
    seen.push(frame.kind === 'records' ? frame.bytes.length : frame.kind);
  return seen;
}

describe('frames of a remote', () => {
  it('that are too large for memory are skipped as they arrive, and later frames are read', async () => {
    const large = 5 * MAX_FRAME_BYTES;
    const piece = Buffer.alloc(MIB);
    async function* source(): AsyncGenerator<Buffer> {
      yield Buffer.concat([head(3), Buffer.alloc(3), head(large)]);
      for (let left = large; left > 0; left -= MIB) yield piece;
      yield Buffer.concat([head(4), Buffer.alloc(4)]);
    }
    expect(await read(source())).toEqual([3, 'skipped', 4]);
  });

  it.each([
    ['larger than any record', head(600 * MIB)],
    ['a note of megabytes', head(MIB, STREAM_FRAME.note)],
    ['of no known type', Buffer.concat([head(1, 7), Buffer.alloc(1)])]
  ])('that are impossible end the stream: %s', async (_what, bytes) => {
    await expect(read(pieces(bytes))).rejects.toBeInstanceOf(StreamError);
  });

  it('of all kernels together use bounded memory: the next one waits, and continues when one is done', async () => {
    const budget = new FrameBudget();
    const first = [await budget.take(MAX_FRAME_BYTES), await budget.take(MAX_FRAME_BYTES)];
    let isTaken = false;
    const third = budget.take(MIB).then(lease => ((isTaken = true), lease));
    await new Promise(resolve => setImmediate(resolve));
    expect(isTaken).toBe(false);
    first[0]![Symbol.dispose]();
    (await third)[Symbol.dispose]();
    first[1]![Symbol.dispose]();
    // The whole budget is available again.
    using both = await budget.take(2 * MAX_FRAME_BYTES);
    expect(both).toBeDefined();
  });

  it('that are no longer awaited release their memory', async () => {
    const budget = new FrameBudget();
    const all = await budget.take(2 * MAX_FRAME_BYTES);
    const ended = new AbortController();
    const waiting = budget.take(MIB, ended.signal);
    ended.abort();
    await expect(waiting).rejects.toThrow();
    all[Symbol.dispose]();
    using again = await budget.take(2 * MAX_FRAME_BYTES);
    expect(again).toBeDefined();
  });
});
