/**
 * Numbers formatted for users, the same in pages, the command line and files: percent, sizes, durations, counts, the time of day.
 */
import type { Transfer } from './transfer.js';

/** For example `46%`. */
export function percentText(percent: number): string {
  return `${Math.round(percent)}%`;
}

/**
 * Rounds so that the sum stays 100 (largest remainder); all zero when there is nothing to share. Rounding each share
 * separately would let five shares add up to 98 or 102.
 */
export function wholePercents(parts: readonly number[]): number[] {
  const total = parts.reduce((sum, part) => sum + part, 0);
  if (!(total > 0)) return parts.map(() => 0);
  const exact = parts.map(part => (part / total) * 100);
  const percents = exact.map(Math.floor);
  const byLargestRemainder = exact
    .map((value, at) => ({ at, remainder: value - Math.floor(value) }))
    .sort((a, b) => b.remainder - a.remainder || a.at - b.at);
  const missing = 100 - percents.reduce((sum, percent) => sum + percent, 0);
  for (const { at } of byLargestRemainder.slice(0, missing)) percents[at] = (percents[at] ?? 0) + 1;
  return percents;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** For example `512 B`, `11.2 GiB`. */
export function sizeText(bytes: number): string {
  const unit = unitOf(bytes);
  return `${inUnit(bytes, unit)} ${UNITS[unit]}`;
}

/** Used of total, in the unit of the total: `11.2 / 15.8 GiB`. */
export function usageText(usedBytes: number, totalBytes: number): string {
  const unit = unitOf(totalBytes);
  return `${inUnit(usedBytes, unit)} / ${inUnit(totalBytes, unit)} ${UNITS[unit]}`;
}

/** Transferred bytes, the total, and the rate: `1.1 / 2.3 GiB · 42.0 MiB/s`. */
export function transferText({ bytes, totalBytes, bytesPerS }: Transfer): string {
  const amount = totalBytes === null ? sizeText(bytes) : usageText(bytes, totalBytes);
  return bytesPerS === null ? amount : `${amount} · ${sizeText(bytesPerS)}/s`;
}

function unitOf(bytes: number): 0 | 1 | 2 | 3 | 4 {
  if (bytes < 1_000) return 0;
  if (bytes < 1_000 * 1_024) return 1;
  if (bytes < 1_000 * 1_024 ** 2) return 2;
  return bytes < 1_000 * 1_024 ** 3 ? 3 : 4;
}

function inUnit(bytes: number, unit: number): string {
  const value = bytes / 1_024 ** unit;
  return unit === 0 || value >= 99.95 ? value.toFixed(0) : value.toFixed(1);
}

/** For example `0.42 ms`, `48.2 ms`, `3.10 s`, `21.4 s`, `2 min 14 s`, `2 h 14 min`. */
export function durationText(ms: number): string {
  if (!Number.isFinite(ms)) return '–';
  if (ms < 999.5) return `${threeFigures(ms)} ms`;
  if (ms < 59_950) return `${threeFigures(ms / 1_000)} s`;
  return longText(Math.round(ms / 1_000));
}

/** Whole seconds, for durations that count up or are estimated: `7 s`, `2 min 5 s`. */
export function secondsText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  return seconds < 60 ? `${seconds} s` : longText(seconds);
}

/** The rest of a wait: counts down to `1 s` instead of zero. */
export function countdownText(ms: number): string {
  return secondsText(Math.max(1, Math.ceil(ms / 1_000)) * 1_000);
}

/** For example `20.7`, `207`, `0.42`. */
export function threeFigures(value: number): string {
  if (value < 9.995) return value.toFixed(2);
  return value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

const COUNT = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** For example `18,240`. */
export function countText(value: number): string {
  return COUNT.format(value);
}

function longText(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 === 0 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
}

/** For example `14:05:09`. @param unixMs shown in the page's time zone */
export function clockText(unixMs: number): string {
  const time = new Date(unixMs);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}
