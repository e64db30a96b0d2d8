/** The time of day of a point, as the axis of a chart and its readout show it. */

/** For example `14:05:09`. @param unixMs shown in the zone of the page */
export function clockText(unixMs: number): string {
  const time = new Date(unixMs);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}
