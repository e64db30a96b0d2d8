import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crc32c } from './crc32c.js';

describe('crc32c', () => {
  it('gives the checksums of RFC 3720, appendix B.4', () => {
    const ascending = Uint8Array.from({ length: 32 }, (_, index) => index);
    expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
    expect(crc32c(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
    expect(crc32c(ascending)).toBe(0x46dd794e);
    expect(crc32c(ascending.toReversed())).toBe(0x113fdb5c);
    const scsiRead = Buffer.from(
      '01c00000000000000000000000000000140000000000040000000014000000182800000000000000' + '0200000000000000',
      'hex'
    );
    expect(crc32c(scsiRead)).toBe(0xd9963a56);
  });

  it('gives the check value of the algorithm, and zero for nothing', () => {
    expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
    expect(crc32c(Buffer.alloc(0))).toBe(0);
  });

  it('agrees with the definition, bit by bit, for every range of a buffer', () => {
    const byDefinition = (bytes: Uint8Array): number => {
      let crc = 0xffffffff;
      for (const byte of bytes) {
        crc ^= byte;
        for (let bit = 0; bit < 8; bit++) {
          crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
        }
      }
      return (crc ^ 0xffffffff) >>> 0;
    };
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), fc.nat(100), fc.nat(100), (bytes, a, b) => {
        const start = Math.min(a, b, bytes.length);
        const end = Math.min(Math.max(a, b), bytes.length);
        expect(crc32c(bytes, start, end)).toBe(byDefinition(bytes.subarray(start, end)));
      })
    );
  });

  it('is the same for what is long as byte for byte, wherever it begins and ends', () => {
    const bytes = Buffer.allocUnsafe(200_000).map((_, index) => (index * 7919 + index * index) & 255);
    const whole = crc32c(bytes, 3, 190_001);
    let bit = 0;
    for (let at = 3; at < 190_001; at += 1 + (at % 997)) {
      const end = Math.min(190_001, at + 1 + (at % 997));
      bit = crc32c(bytes, at, end, bit);
    }
    expect(whole).toBe(bit);
    for (const [start, end] of [
      [0, 32_768],
      [1, 32_769],
      [2, 57_345],
      [5, 199_999]
    ] as const) {
      const middle = start + 20_000;
      expect(crc32c(bytes, start, end)).toBe(crc32c(bytes, middle, end, crc32c(bytes, start, middle)));
    }
  });
});
