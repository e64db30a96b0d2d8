/** Converts between a slider's position and the value of a hyperparameter. */
import type { Hyperparameter } from '@tpulab/protocol';

/** Positions of a slider: fine enough for a hundredth of a decade over ten decades. */
export const PLACES = 1_000;

export interface Bounds {
  readonly min: number;
  readonly max: number;
}

/** Null for a value without a slider: not a number, or without bounds. A logarithmic slider needs bounds above 0. */
export function sliderBounds({ kind, min, max, scale }: Hyperparameter): Bounds | null {
  if ((kind !== 'number' && kind !== 'integer') || min === null || max === null || !(max > min)) {
    return null;
  }
  return scale === 'log' && min <= 0 ? null : { min, max };
}

/** 0 to `PLACES`. A value outside the bounds is at its end. */
export function placeOf(value: number, { min, max }: Bounds, scale: Hyperparameter['scale']): number {
  const share =
    scale === 'log'
      ? Math.log(Math.max(value, min) / min) / Math.log(max / min)
      : (value - min) / (max - min);
  return Math.round(Math.min(1, Math.max(0, share)) * PLACES);
}

/** Rounded to three figures, because users do not choose a fourth; whole for an integer; the ends are exact. */
export function valueAt(place: number, { min, max }: Bounds, parameter: Hyperparameter): number {
  if (place <= 0) {
    return min;
  }
  if (place >= PLACES) {
    return max;
  }
  const share = place / PLACES;
  const exact = parameter.scale === 'log' ? min * (max / min) ** share : min + (max - min) * share;
  const value = parameter.kind === 'integer' ? Math.round(exact) : Number(exact.toPrecision(3));
  return Math.min(max, Math.max(min, value));
}

/** The value of a typed text; null for no number, a fraction where a whole number is required, or a number outside the bounds. */
export function parseNumber(text: string, { kind, min, max }: Hyperparameter): number | null {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  const isValid =
    Number.isFinite(value) &&
    (kind !== 'integer' || Number.isInteger(value)) &&
    (min === null || value >= min) &&
    (max === null || value <= max);
  return isValid ? value : null;
}
