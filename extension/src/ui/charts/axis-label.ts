/** Labels below the x axis, each centred below its tick. */

/** A letter of the axes' font, pixels. */
const LETTER_WIDTH = 6;

export interface AxisRoom {
  /** Values at the ends of the axis; not known before there are any. */
  readonly min?: number | undefined;
  readonly max?: number | undefined;
  /** Pixels from end to end, and those right of it. */
  readonly width: number;
  readonly beyond: number;
}

/** The label of a tick, or none where the edge of the chart would cut it off: half a time is another time. */
export function fittingLabel(text: string, tick: number, { min, max, width, beyond }: AxisRoom): string {
  if (min === undefined || max === undefined || max <= min) {
    return text;
  }
  const toEdge = ((max - tick) / (max - min)) * width + beyond;
  return (text.length * LETTER_WIDTH) / 2 <= toEdge ? text : '';
}
