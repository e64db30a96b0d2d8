import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { unmask } from './unmask.js';

describe('taking a mask off', () => {
  it('is what RFC 6455 says for every byte, wherever the data lie, and touches nothing beside them', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 80 }),
        fc.uint8Array({ minLength: 4, maxLength: 4 }),
        fc.nat({ max: 8 }),
        (bytes, mask, offset) => {
          const memory = Buffer.alloc(offset + bytes.length + 8, 7);
          memory.set(bytes, offset);
          unmask(memory.subarray(offset, offset + bytes.length), Buffer.from(mask));
          const expected = [...bytes].map((byte, at) => byte ^ mask[at % 4]!);
          expect([...memory]).toEqual([
            ...Array<number>(offset).fill(7),
            ...expected,
            ...Array<number>(8).fill(7)
          ]);
        }
      )
    );
  });
});
