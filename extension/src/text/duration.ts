/** Durations as people read them: three figures, the unit that fits. */

/** For example `0.42 ms`, `48.2 ms`, `3.10 s`, `21.4 s`, `2 min 14 s`, `2 h 14 min`. */
export function durationText(ms: number): string {
  if (!Number.isFinite(ms)) {
    return '–';
  }
  if (ms < 999.5) {
    return `${threeFigures(ms)} ms`;
  }
  if (ms < 59_950) {
    return `${threeFigures(ms / 1_000)} s`;
  }
  return longText(Math.round(ms / 1_000));
}

/** Whole seconds, for what counts up or is estimated: `7 s`, `2 min 5 s`. */
export function secondsText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  return seconds < 60 ? `${seconds} s` : longText(seconds);
}

/** What is left of a wait: counts down to `1 s`, never to nothing. */
export function countdownText(ms: number): string {
  return secondsText(Math.max(1, Math.ceil(ms / 1_000)) * 1_000);
}

/** For example `20.7`, `207`, `0.42`. */
export function threeFigures(value: number): string {
  if (value < 9.995) {
    return value.toFixed(2);
  }
  return value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

const COUNT = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** For example `18,240`. */
export function countText(value: number): string {
  return COUNT.format(value);
}

function longText(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    return seconds % 60 === 0 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`;
  }
  const hours = Math.floor(minutes / 60);
  return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
}
