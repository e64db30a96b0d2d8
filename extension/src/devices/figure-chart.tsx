/** A chart of one or two figures of a machine over the chosen range. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { JSX } from 'react';
import { clockText } from '@tpulab/protocol';
import { byteTicks, byteTickText } from '../ui/charts/byte-ticks.js';
import { type LineTicks, LineView, type LineViewSeries } from '../ui/charts/line-view.js';
import type { Figure } from './figures.js';
import { type RangeName, RANGES, windowOf } from './history-window.js';
import type { MachineTelemetry } from './machine-telemetry.js';
import type { DrawLoop } from '../ui/draw-loop.js';

/** The common properties of all charts of a machine. */
export interface ChartProps {
  readonly machine: MachineTelemetry;
  readonly history: Parameters<typeof windowOf>[0];
  readonly name: RangeName;
  readonly version: string;
  readonly loop: DrawLoop;
  readonly trans: TranslationBundle;
}

export interface FigureChartProps extends ChartProps {
  readonly title: string;
  readonly meta: string;
  readonly figures: readonly Figure[];
  readonly series: readonly LineViewSeries[];
  readonly yText: (value: number) => string;
  readonly yTicks?: LineTicks;
  readonly top: number;
}

export const BYTES: LineTicks = { at: byteTicks, text: byteTickText };

export function FigureChart(props: FigureChartProps): JSX.Element {
  const { machine, history, name, figures, title, meta, series, version, loop, yText, yTicks, top } = props;
  const data = windowOf(history, machine.ring, figures, RANGES[name], Date.now());
  return (
    <LineView
      title={title}
      meta={meta}
      series={series}
      data={data}
      version={version}
      loop={loop}
      xText={clockText}
      yText={yText}
      {...(yTicks ? { yTicks } : {})}
      yRange={(_, max) => [0, Math.max(top, max ?? 0) || 1]}
    />
  );
}

/** The newest of the samples since this page started monitoring; empty if unknown. */
export function newest(machine: MachineTelemetry, figure: Figure, text: (value: number) => string): string {
  const value = machine.ring.value(figure, machine.ring.length - 1);
  return Number.isNaN(value) ? '' : text(value);
}
