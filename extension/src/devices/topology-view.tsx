/** The slice's layout: chips at their positions, hosts around them, links between; this machine's chips filled by their load. */
import { type JSX, memo } from 'react';
import type { AcceleratorInfo } from '@tpulab/protocol';
import type { DeviceTile } from './tiles.js';
import { trans } from '../text/trans.js';

interface TopologyViewProps {
  readonly accelerator: AcceleratorInfo;
  readonly tiles: readonly DeviceTile[];
}

const CELL = 18;
const CHIP = 10;
/** Larger slices are described in words: their cells would be too small. */
const MAX_CHIPS = 512;

/** Draws nothing if the arrangement is unknown or is a single chip. */
export const TopologyView = memo(function TopologyView({
  accelerator,
  tiles
}: TopologyViewProps): JSX.Element | null {
  const shape = sliceShape(accelerator);
  if (!shape) return null;
  const [width, height, depth] = shape.chips;
  const count = width * height * depth;
  const hosts = count / (shape.host[0] * shape.host[1] * shape.host[2]);
  const size = shape.chips.filter((n, at) => at < 2 || n > 1).join(' × ');
  const label = trans.__('%1: %2 chips on %3 hosts', size, count, hosts);
  if (count === 1) return null;
  if (count > MAX_CHIPS) return <p className="jp-TPULab-quiet">{label}</p>;
  const worker = Number(accelerator.workerId ?? '0');
  const planeWidth = width * CELL + 8;
  const total = depth * planeWidth - 8;
  const loads = loadByChip(tiles);
  return (
    <figure className="jp-TPULabTopology">
      <svg
        viewBox={`-2 -2 ${total + 4} ${height * CELL + 4}`}
        width={Math.min(total + 4, 300)}
        role="img"
        aria-label={label}
      >
        {placedChips(shape).map(({ x, y, z, host, local }) => {
          const left = z * planeWidth + x * CELL + (CELL - CHIP) / 2;
          const top = y * CELL + (CELL - CHIP) / 2;
          const middle = [left + CHIP / 2, top + CHIP / 2] as const;
          const isOnHost = host === worker;
          const load = isOnHost ? (loads.get(local) ?? 0) : 0;
          const bad = isOnHost && tiles.some(tile => tile.chip === local && isBadLink(tile));
          return (
            <g key={`${x} ${y} ${z}`} className={isOnHost ? 'jp-mod-here' : ''}>
              {x + 1 < width ? (
                <line
                  x1={middle[0] + CHIP / 2}
                  y1={middle[1]}
                  x2={middle[0] + CELL - CHIP / 2}
                  y2={middle[1]}
                />
              ) : null}
              {y + 1 < height ? (
                <line
                  x1={middle[0]}
                  y1={middle[1] + CHIP / 2}
                  x2={middle[0]}
                  y2={middle[1] + CELL - CHIP / 2}
                />
              ) : null}
              <rect
                x={left}
                y={top}
                width={CHIP}
                height={CHIP}
                rx={2}
                className={bad ? 'jp-TPULabTopology-bad' : 'jp-TPULabTopology-chip'}
              />
              {load > 0 ? (
                <rect
                  x={left}
                  y={top + CHIP * (1 - load)}
                  width={CHIP}
                  height={CHIP * load}
                  rx={1}
                  className="jp-TPULabTopology-load"
                />
              ) : null}
            </g>
          );
        })}
        {hostOutlines(shape, planeWidth).map((box, at) => (
          <rect key={at} {...box} rx={4} className="jp-TPULabTopology-host" />
        ))}
      </svg>
      <figcaption className="jp-TPULab-quiet">
        {hosts > 1 ? trans.__('%1; this is host %2', label, worker) : label}
      </figcaption>
    </figure>
  );
});

function isBadLink({ link }: DeviceTile): boolean {
  return link === 'minor' || link === 'unusable';
}

/** Mean duty of the devices of each chip, 0 to 1. */
function loadByChip(tiles: readonly DeviceTile[]): Map<number, number> {
  const loads = new Map<number, number[]>();
  for (const { chip, dutyPercent } of tiles) {
    if (chip !== null && dutyPercent !== null) {
      loads.set(chip, [...(loads.get(chip) ?? []), dutyPercent / 100]);
    }
  }
  return new Map(
    [...loads].map(([chip, all]) => [chip, all.reduce((sum, one) => sum + one, 0) / all.length])
  );
}

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

function hostOutlines(shape: NonNullable<ReturnType<typeof sliceShape>>, planeWidth: number): Box[] {
  const [width, height, depth] = shape.chips;
  const [hx, hy] = shape.host;
  const boxes: Box[] = [];
  for (let z = 0; z < depth; z += 1) {
    for (let y = 0; y < height; y += hy) {
      for (let x = 0; x < width; x += hx) {
        boxes.push({
          x: z * planeWidth + x * CELL + 1,
          y: y * CELL + 1,
          width: hx * CELL - 2,
          height: hy * CELL - 2
        });
      }
    }
  }
  return boxes;
}

/** The arrangement of a slice's chips: from the bounds in the accelerator's metadata. */
interface SliceShape {
  /** Chips along x, y and z. */
  readonly chips: readonly [number, number, number];
  /** Chips of one host along x, y and z. */
  readonly host: readonly [number, number, number];
}

interface PlacedChip {
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
  if (!processes || !host) return null;
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
  const isValid = numbers.length <= 3 && [x, y, z].every(n => Number.isInteger(n) && n >= 1 && n <= 64);
  return text !== null && isValid && x * y * z <= 16_384 ? [x, y, z] : null;
}
