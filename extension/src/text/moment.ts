/** A moment in the past, as short as it can be told: the time of day, and the date when it was not today. */
import { clockText } from '../charts/clock-text.js';

/** For example `14:05:09`, or `2026-11-21 14:05:09`. @param unixMs shown in the zone of the page */
export function momentText(unixMs: number, now: number): string {
  const [day, today] = [dayText(unixMs), dayText(now)];
  return day === today ? clockText(unixMs) : `${day} ${clockText(unixMs)}`;
}

function dayText(unixMs: number): string {
  const time = new Date(unixMs);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
}
