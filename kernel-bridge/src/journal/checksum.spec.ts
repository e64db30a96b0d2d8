import zlib from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crc32, crc32c, isChecksumOf } from './record-codec.js';

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
});

describe('crc32', () => {
  it('is the algorithm of zlib, whole and in pieces, short and long', () => {
    expect(crc32(Buffer.from('123456789'))).toBe(0xcbf43926);
    const bytes = Buffer.allocUnsafe(20_000).map((_, index) => (index * 7919 + index * index) & 255);
    fc.assert(
      fc.property(fc.nat(20_000), fc.nat(2000), fc.nat(600), (start, middle, last) => {
        const [from, at, end] = [start, start + middle, start + middle + last].map(place =>
          Math.min(place, bytes.length)
        ) as [number, number, number];
        const expected = zlib.crc32(bytes.subarray(from, end));
        expect(crc32(bytes, from, end)).toBe(expected);
        expect(crc32(bytes, at, end, crc32(bytes, from, at))).toBe(expected);
      })
    );
  });

  it('is accepted for a record, as is the CRC-32C of older records', () => {
    const bytes = Buffer.from('0123456789');
    expect(isChecksumOf(crc32(bytes, 2, 8), bytes, 2, 8)).toBe(true);
    expect(isChecksumOf(crc32c(bytes, 2, 8), bytes, 2, 8)).toBe(true);
    expect(isChecksumOf(crc32(bytes, 2, 9), bytes, 2, 8)).toBe(false);
  });
});
