import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mask, unmask } from './bufferutil.js';

const KEY = fc.uint8Array({ minLength: 4, maxLength: 4 });

/** Places `bytes` at `offset` of a larger memory, whose other bytes are sevens. */
function placed(bytes: Uint8Array, offset: number): { memory: Buffer; view: Buffer } {
  const memory = Buffer.alloc(offset + bytes.length + 8, 7);
  memory.set(bytes, offset);
  return { memory, view: memory.subarray(offset, offset + bytes.length) };
}

describe('masking WebSocket frames', () => {
  it('removes a mask from every byte, at any alignment, and changes no adjacent byte', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), KEY, fc.nat({ max: 8 }), (bytes, key, offset) => {
        const { memory, view } = placed(bytes, offset);
        unmask(view, key);
        const expected = bytes.map((byte, at) => byte ^ (key[at % 4] ?? 0));
        expect(memory).toEqual(placed(expected, offset).memory);
      })
    );
  });

  it('masks part of a source into another buffer, at any alignment of the two', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 200 }),
        KEY,
        fc.nat({ max: 8 }),
        fc.nat({ max: 8 }),
        fc.nat({ max: 200 }),
        (bytes, key, sourceOffset, offset, part) => {
          const length = Math.min(part, bytes.length);
          const output = Buffer.alloc(offset + bytes.length + 8, 7);
          mask(placed(bytes, sourceOffset).view, key, output, offset, length);
          const expected = Buffer.alloc(output.length, 7);
          expected.set(
            bytes.subarray(0, length).map((byte, at) => byte ^ (key[at % 4] ?? 0)),
            offset
          );
          expect(output).toEqual(expected);
        }
      )
    );
  });
});
