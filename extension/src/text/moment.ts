/** A moment in the past in its shortest form: the time of day, and the date when it was not today. */
import { clockText } from '@tpulab/protocol';
import { trans } from './trans.js';

/** For example `14:05:09`, or `2026-11-21 14:05:09`. @param unixMs shown in the time zone of the page */
export function momentText(unixMs: number, now: number): string {
  const [day, today] = [dayText(unixMs), dayText(now)];
  return day === today ? clockText(unixMs) : `${day} ${clockText(unixMs)}`;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** How long ago, in one unit: `now`, `5 min ago`, `2 h ago`, `3 days ago`. */
export function agoText(unixMs: number, now: number): string {
  const ms = Math.max(0, now - unixMs);
  if (ms < MINUTE_MS) return trans.__('now');
  if (ms < HOUR_MS) return trans.__('%1 min ago', Math.floor(ms / MINUTE_MS));
  return ms < DAY_MS
    ? trans.__('%1 h ago', Math.floor(ms / HOUR_MS))
    : trans._n('%1 day ago', '%1 days ago', Math.floor(ms / DAY_MS));
}

function dayText(unixMs: number): string {
  const time = new Date(unixMs);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
}
