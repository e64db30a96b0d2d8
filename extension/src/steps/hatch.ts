/** The hatching of idle time on a canvas; `steps.css` has the same for bar and legend. */
import type { ChartColors } from './chart-colors.js';

/** Distance between two lines, CSS pixels. */
const PITCH = 5;

/** Null where no pattern can be created. @param ratio device pixels of a CSS pixel */
export function hatchOf(
  context: CanvasRenderingContext2D,
  { spans, background }: Pick<ChartColors, 'spans' | 'background'>,
  idle: number,
  ratio: number
): CanvasPattern | null {
  const tile = document.createElement('canvas');
  tile.width = tile.height = Math.max(1, Math.round(PITCH * ratio));
  const lines = tile.getContext('2d');
  if (!lines) {
    return null;
  }
  const size = tile.width;
  lines.fillStyle = background;
  lines.fillRect(0, 0, size, size);
  lines.strokeStyle = spans[idle] ?? 'gray';
  lines.lineWidth = size / 4;
  lines.beginPath();
  // Three lines, so that the corners of the tile are complete.
  for (const shift of [-size, 0, size]) {
    lines.moveTo(shift, size);
    lines.lineTo(shift + size, 0);
  }
  lines.stroke();
  const pattern = context.createPattern(tile, 'repeat');
  pattern?.setTransform(new DOMMatrix().scale(PITCH / size));
  return pattern;
}
