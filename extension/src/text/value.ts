/** Values of metrics and hyperparameters in readable form. */

/** Four figures, exponents for very small or very large values; texts and switches unchanged. */
export function valueText(value: number | boolean | string): string {
  return typeof value === 'number' ? metricText(value) : String(value);
}

/** For example `2.317`, `1.00e-4`, `12`. */
export function metricText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '-∞';
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  return size >= 1e5 || (size > 0 && size < 1e-3) ? value.toExponential(2) : value.toPrecision(4);
}
