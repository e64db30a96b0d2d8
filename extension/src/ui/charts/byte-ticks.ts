/** Ticks of an axis of bytes: round in units of memory (2, 4, 8, 16 GiB), unlike powers of ten. */
import { sizeText } from '@tpulab/protocol';

/** Multiples of one power of two within the range, at most `most` of them (two at least). */
export function byteTicks(min: number, max: number, most: number): number[] {
  const range = max - min;
  if (!(range > 0)) return [min];
  let step = 2 ** Math.floor(Math.log2(range / Math.max(2, most)));
  while (count(min, max, step) > Math.max(2, most)) {
    step *= 2;
  }
  const first = Math.ceil(min / step);
  return Array.from({ length: count(min, max, step) }, (_, at) => (first + at) * step);
}

function count(min: number, max: number, step: number): number {
  return Math.floor(max / step) - Math.ceil(min / step) + 1;
}

/** `16 GiB`, and `0` without a unit. */
export function byteTickText(bytes: number): string {
  return bytes === 0 ? '0' : sizeText(bytes).replace('.0 ', ' ');
}
