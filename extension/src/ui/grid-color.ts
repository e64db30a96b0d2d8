/** Grid lines behind the figures in every theme: the borders of high contrast are as bright as the lines they would cross. */
export function gridColor(text: string): string {
  return `color-mix(in srgb, ${text} 18%, transparent)`;
}
