/** The colours of the chart, read from the theme, because a canvas knows no CSS variables. */
import { SPANS } from '../events/step-ring.js';
import { gridColor } from '../ui/grid-color.js';

export interface ChartColors {
  /** In the order of `SPANS`. */
  readonly spans: readonly string[];
  readonly text: string;
  readonly line: string;
  readonly background: string;
  readonly font: string;
}

export function readColors(element: Element): ChartColors {
  const style = getComputedStyle(element);
  const value = (name: string, otherwise: string): string => style.getPropertyValue(name).trim() || otherwise;
  return {
    spans: SPANS.map(span => value(`--jp-tpulab-${span}`, 'gray')),
    text: value('--jp-ui-font-color2', 'gray'),
    line: gridColor(value('--jp-ui-font-color1', 'gray')),
    background: value('--jp-layout-color1', 'white'),
    font: `10px ${value('--jp-code-font-family', 'monospace')}`
  };
}
