/* eslint-disable @typescript-eslint/no-non-null-assertion -- every index is masked to its table or below the loop bound */
/**
 * The checksum of a record: CRC-32, as zlib computes it. In segments of version 1 it is CRC-32C.
 *
 * zlib's code is native and takes 0.2 ms a MB on Node 20 where a table in TypeScript takes 0.7, but calling it costs 100 ns
 * and more: what is short is summed by table (ns, table / zlib: 64 B 66 / 231, 256 B 248 / 243, 700 B 568 / 438,
 * 4 KB 3,225 / 979). Most pieces of a small record are short.
 */
import { crc32 as crc32OfZlib } from 'node:zlib';

const CRC_32 = makeTables(0xedb88320);
/** Castagnoli, as in iSCSI; made when it is first needed. */
let castagnoli: Int32Array | null = null;
const LONG_BYTES = 256;

/** CRC-32 of `bytes[start..end)` as an unsigned 32-bit number; `before` is that of the bytes which precede them. */
export function crc32(bytes: Uint8Array, start = 0, end = bytes.length, before = 0): number {
  return end - start < LONG_BYTES
    ? ~bySixteen(CRC_32, bytes, start, end, ~before) >>> 0
    : crc32OfZlib(bytes.subarray(start, end), before);
}

/** CRC-32C of `bytes[start..end)`: of headers of segments, and of records in segments of version 1. */
export function crc32c(bytes: Uint8Array, start = 0, end = bytes.length): number {
  castagnoli ??= makeTables(0x82f63b78);
  return ~bySixteen(castagnoli, bytes, start, end, -1) >>> 0;
}

/** Whether `checksum` is that of `bytes[start..end)`, of a record of either version. */
export function isChecksumOf(checksum: number, bytes: Uint8Array, start: number, end: number): boolean {
  return crc32(bytes, start, end) === checksum || crc32c(bytes, start, end) === checksum;
}

/** Not inverted at either end. Sixteen bytes a turn. */
function bySixteen(t: Int32Array, bytes: Uint8Array, start: number, end: number, before: number): number {
  let crc = before;
  let at = start;
  for (const wholeEnd = start + ((end - start) & ~15); at < wholeEnd; at += 16) {
    crc ^= bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    crc =
      t[3840 + (crc & 255)]! ^
      t[3584 + ((crc >>> 8) & 255)]! ^
      t[3328 + ((crc >>> 16) & 255)]! ^
      t[3072 + (crc >>> 24)]! ^
      t[2816 + bytes[at + 4]!]! ^
      t[2560 + bytes[at + 5]!]! ^
      t[2304 + bytes[at + 6]!]! ^
      t[2048 + bytes[at + 7]!]! ^
      t[1792 + bytes[at + 8]!]! ^
      t[1536 + bytes[at + 9]!]! ^
      t[1280 + bytes[at + 10]!]! ^
      t[1024 + bytes[at + 11]!]! ^
      t[768 + bytes[at + 12]!]! ^
      t[512 + bytes[at + 13]!]! ^
      t[256 + bytes[at + 14]!]! ^
      t[bytes[at + 15]!]!;
  }
  for (; at < end; at++) crc = (crc >>> 8) ^ t[(crc ^ bytes[at]!) & 255]!;
  return crc;
}

/** For a polynomial, bits reversed. Table k (at 256 * k) advances a byte by k further zero bytes. */
function makeTables(polynomial: number): Int32Array {
  const tables = new Int32Array(16 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1;
    tables[byte] = crc;
  }
  for (let index = 256; index < tables.length; index++) {
    const previous = tables[index - 256]!;
    tables[index] = (previous >>> 8) ^ tables[previous & 255]!;
  }
  return tables;
}
