/** Labels below the x axis, each centred below its tick. */

/** A letter of the axes' font, pixels. */
const LETTER_WIDTH = 6;

export interface AxisRoom {
  /** Values at the ends of the axis; unknown before there are any. */
  readonly min?: number | undefined;
  readonly max?: number | undefined;
  /** Pixels from end to end, and right of the axis. */
  readonly width: number;
  readonly beyond: number;
}

/** The label of a tick, or none where the edge of the chart would cut it off: a truncated time looks like another time. */
export function fittingLabel(text: string, tick: number, { min, max, width, beyond }: AxisRoom): string {
  if (min === undefined || max === undefined || max <= min) {
    return text;
  }
  const toEdge = ((max - tick) / (max - min)) * width + beyond;
  return (text.length * LETTER_WIDTH) / 2 <= toEdge ? text : '';
}
