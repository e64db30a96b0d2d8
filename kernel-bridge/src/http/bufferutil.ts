/**
 * Masks and unmasks WebSocket frames (RFC 6455, 5.3) by words. `ws` does it byte by byte unless it finds the native package
 * `bufferutil`, which cannot be part of a bundle: the bundle gets this module under that name. Its interface is the documented one.
 */

const WORD = 4;
/** Words per iteration of the unrolled loop. */
const UNROLLED = 8;

/** Writes `source[0..length)` XOR `key`, which has 4 bytes, to `output` from `offset` on; both may be the same memory. */
export function mask(
  source: Uint8Array,
  key: Uint8Array,
  output: Uint8Array,
  offset: number,
  length: number
): void {
  // A view of words has to begin at a multiple of 4, in both source and output.
  const begin = -source.byteOffset & (WORD - 1);
  let at = 0;
  if (length >= begin && ((output.byteOffset + offset + begin) & (WORD - 1)) === 0) {
    maskBytes(source, key, output, offset, 0, begin);
    const words = (length - begin) >> 2;
    const word = new Int32Array(
      Uint8Array.from({ length: WORD }, (_, n) => key[(begin + n) & 3] ?? 0).buffer
    );
    maskWords(
      new Int32Array(source.buffer, source.byteOffset + begin, words),
      word[0] ?? 0,
      new Int32Array(output.buffer, output.byteOffset + offset + begin, words)
    );
    at = begin + words * WORD;
  }
  maskBytes(source, key, output, offset, at, length);
}

/** Removes the mask `key` from `buffer` in place. */
export function unmask(buffer: Uint8Array, key: Uint8Array): void {
  mask(buffer, key, buffer, 0, buffer.length);
}

/* eslint-disable @typescript-eslint/no-non-null-assertion -- every index is below the length of its array */
function maskWords(source: Int32Array, word: number, output: Int32Array): void {
  const { length } = source;
  let at = 0;
  for (; at + UNROLLED <= length; at += UNROLLED) {
    output[at] = source[at]! ^ word;
    output[at + 1] = source[at + 1]! ^ word;
    output[at + 2] = source[at + 2]! ^ word;
    output[at + 3] = source[at + 3]! ^ word;
    output[at + 4] = source[at + 4]! ^ word;
    output[at + 5] = source[at + 5]! ^ word;
    output[at + 6] = source[at + 6]! ^ word;
    output[at + 7] = source[at + 7]! ^ word;
  }
  for (; at < length; at++) output[at] = source[at]! ^ word;
}

function maskBytes(
  source: Uint8Array,
  key: Uint8Array,
  output: Uint8Array,
  offset: number,
  from: number,
  to: number
): void {
  for (let at = from; at < to; at++) output[offset + at] = source[at]! ^ key[at & 3]!;
}
