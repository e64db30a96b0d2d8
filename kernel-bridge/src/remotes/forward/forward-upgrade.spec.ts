import fc from 'fast-check';
import type { Duplex } from 'node:stream';
import { describe, expect, it } from 'vitest';
import * as library from 'ws';
import { closeFrame, FrameBoundary } from './forward-upgrade.js';

/** Not in the library's types. */
const { Receiver, Sender } = library as unknown as {
  readonly Receiver: new (options: { isServer: boolean }) => Duplex;
  readonly Sender: { frame(data: Buffer, options: object): Buffer[] };
};

/** Frames as the `ws` library writes them, which we did not write. */
async function frames(sizes: readonly number[], mask: boolean): Promise<Buffer[]> {
  const written: Buffer[] = [];
  for (const size of sizes) {
    const parts = Sender.frame(Buffer.alloc(size, 7), {
      fin: true,
      rsv1: false,
      opcode: 2,
      mask,
      readOnly: true
    });
    written.push(Buffer.concat(parts));
  }
  return written;
}

const SIZES = fc.array(
  fc.oneof(fc.integer({ min: 0, max: 300 }), fc.constantFrom(125, 126, 65_535, 65_536)),
  {
    maxLength: 6
  }
);

describe('between two frames', () => {
  it('is known however the bytes are cut', async () => {
    await fc.assert(
      fc.asyncProperty(SIZES, fc.boolean(), fc.integer({ min: 1, max: 5000 }), async (sizes, mask, step) => {
        const written = await frames(sizes, mask);
        const bytes = Buffer.concat(written);
        const ends = new Set([0]);
        let end = 0;
        for (const frame of written) ends.add((end += frame.length));
        const boundary = new FrameBoundary();
        for (let at = 0; at < bytes.length;) {
          const next = Math.min(bytes.length, at + step);
          boundary.take(bytes.subarray(at, next));
          at = next;
          expect([at, boundary.isBetweenFrames]).toEqual([at, ends.has(at)]);
        }
      }),
      { numRuns: 60 }
    );
  });
});

describe('our goodbye', () => {
  it('is a close frame to the library that clients use', async () => {
    const receiver = new Receiver({ isServer: false });
    const concluded = new Promise(resolve =>
      receiver.once('conclude', (code: number, reason: Buffer) => resolve([code, reason.toString()]))
    );
    receiver.write(closeFrame(1012, 'away'));
    expect(await concluded).toEqual([1012, 'away']);
  });
});
