/** The arrangement of a slice's chips: from the bounds in the accelerator's metadata. */
import type { AcceleratorInfo } from '@tpulab/protocol';

export interface SliceShape {
  /** Chips along x, y and z. */
  readonly chips: readonly [number, number, number];
  /** Chips of one host along x, y and z. */
  readonly host: readonly [number, number, number];
}

export interface PlacedChip {
  readonly x: number;
  readonly y: number;
  readonly z: number;
  /** Number of the host, as workers are numbered: x fastest, then y, then z. */
  readonly host: number;
  /** Position among the chips of its host. */
  readonly local: number;
}

/** Null when the bounds are unknown or invalid. */
export function sliceShape({ processBounds, chipsPerProcessBounds }: AcceleratorInfo): SliceShape | null {
  const processes = boundsOf(processBounds);
  const host = boundsOf(chipsPerProcessBounds);
  if (!processes || !host) {
    return null;
  }
  return {
    chips: [processes[0] * host[0], processes[1] * host[1], processes[2] * host[2]],
    host
  };
}

export function placedChips({ chips: [width, height, depth], host: [hx, hy, hz] }: SliceShape): PlacedChip[] {
  const hosts = [width / hx, height / hy] as const;
  const placed: PlacedChip[] = [];
  for (let z = 0; z < depth; z += 1) {
    for (let y = 0; y < height; y += 1) {
      for (let x = 0; x < width; x += 1) {
        const host = Math.floor(x / hx) + hosts[0] * (Math.floor(y / hy) + hosts[1] * Math.floor(z / hz));
        placed.push({ x, y, z, host, local: (x % hx) + hx * ((y % hy) + hy * (z % hz)) });
      }
    }
  }
  return placed;
}

/** `2,2,1`. More chips than any slice has are a mistake, and drawing them would block the page. */
function boundsOf(text: string | null): [number, number, number] | null {
  const numbers = (text ?? '').split(',').map(Number);
  const [x = 0, y = 1, z = 1] = numbers;
  const isFine = numbers.length <= 3 && [x, y, z].every(n => Number.isInteger(n) && n >= 1 && n <= 64);
  return text !== null && isFine && x * y * z <= 16_384 ? [x, y, z] : null;
}
