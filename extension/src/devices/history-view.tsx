/** The history of machine and chips: charts over ten minutes, two hours or two days. Host charts beyond the processor on demand. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { type JSX, useState } from 'react';
import { percentText, sizeText } from '@tpulab/protocol';
import type { LineViewSeries } from '../ui/charts/line-view.js';
import { type DeviceField, deviceFigure, type Figure, LINES_UP_TO } from './figures.js';
import { type RangeName, RANGES } from './history-window.js';
import type { MachineSource } from './machine-source.js';
import type { MachineTelemetry } from './machine-telemetry.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { HostCharts } from './host-charts.js';
import { type ChartProps, FigureChart, BYTES, newest } from './figure-chart.js';
import { useHistory } from './use-history.js';

export interface HistoryViewProps {
  readonly machine: MachineTelemetry;
  readonly source: MachineSource | null;
  readonly first: RangeName;
  readonly loop: DrawLoop;
  readonly paused: boolean;
  readonly trans: TranslationBundle;
}

const NAMES: readonly RangeName[] = ['minutes', 'hours', 'days'];

/** Neighbours differ in colour; devices of one colour differ in dash. */
const COLOURS = [
  '--jp-brand-color1',
  '--jp-tpulab-input',
  '--jp-tpulab-compile',
  '--jp-tpulab-device',
  '--jp-ui-font-color2'
] as const;
const DASHES = [undefined, [6, 3], [2, 2], [8, 3, 2, 3]] as const;

interface DeviceChartProps extends ChartProps {
  /** The devices that have a line each; null: one line for all of them. */
  readonly each: readonly number[] | null;
}

export function HistoryView(props: HistoryViewProps): JSX.Element {
  const { machine, source, first, paused, trans } = props;
  const [name, setName] = useState(first);
  const [isEach, setIsEach] = useState(false);
  const range = RANGES[name];
  const { history, failure } = useHistory(source, range, paused);
  const version = `${name} ${isEach} ${history?.times.at(-1) ?? 0} ${machine.ring.lastTime}`;
  const ordinals = machine.sample?.devices.map(({ ordinal }) => ordinal) ?? [];
  const hasDevices = ordinals.length > 0;
  const hasLines = ordinals.length > 1 && ordinals.length <= LINES_UP_TO;
  const chart = { ...props, name, version, history, each: isEach && hasLines ? ordinals : null };
  return (
    <div className="jp-TPULabHistory">
      <div className="jp-TPULab-choice" role="group" aria-label={trans.__('How far back')}>
        {NAMES.map(one => (
          <button
            key={one}
            type="button"
            className="jp-TPULab-option"
            aria-pressed={one === name}
            onClick={() => setName(one)}
          >
            {rangeText(one, trans)}
          </button>
        ))}
        {hasLines ? (
          <button
            type="button"
            className="jp-TPULab-option"
            aria-pressed={isEach}
            title={trans.__('A line for each device')}
            onClick={() => setIsEach(!isEach)}
          >
            {trans.__('per device')}
          </button>
        ) : null}
      </div>
      {hasDevices ? <MemoryChart {...chart} /> : null}
      {hasDevices ? <DutyChart {...chart} /> : null}
      {hasDevices ? <UseChart {...chart} /> : null}
      <HostCharts {...chart} />
      {failure === null ? null : <p className="jp-TPULab-quiet">{failure}</p>}
    </div>
  );
}

/** Figures and lines of a chart with a line for each device. */
function linesOf(
  each: readonly number[],
  field: DeviceField,
  { trans }: ChartProps
): { readonly figures: readonly Figure[]; readonly series: readonly LineViewSeries[] } {
  return {
    figures: each.map(ordinal => deviceFigure(ordinal, field)),
    series: each.map((ordinal, at) => {
      const dash = DASHES[Math.floor(at / COLOURS.length) % DASHES.length];
      const colour = COLOURS[at % COLOURS.length] ?? COLOURS[0];
      return { name: trans.__('device %1', ordinal), colour, ...(dash ? { dash } : {}) };
    })
  };
}

function MemoryChart(props: DeviceChartProps): JSX.Element {
  const { each, machine, trans } = props;
  const total = Math.max(
    0,
    ...(machine.sample?.devices.map(({ hbmTotalBytes }) => hbmTotalBytes ?? 0) ?? [])
  );
  return (
    <FigureChart
      {...props}
      title={trans.__('HBM per device')}
      meta={newest(machine, 'hbm.max', sizeText)}
      {...(each
        ? linesOf(each, 'hbmUsedBytes', props)
        : {
            figures: ['hbm.max', 'hbm.mean'],
            series: [
              { name: trans.__('maximum'), colour: '--jp-brand-color1', fill: true },
              { name: trans.__('mean'), colour: '--jp-ui-font-color2', dash: [4, 3] }
            ]
          })}
      yText={sizeText}
      yTicks={BYTES}
      top={total}
    />
  );
}

function DutyChart(props: DeviceChartProps): JSX.Element {
  const { each, machine, trans } = props;
  return (
    <FigureChart
      {...props}
      title={trans.__('Duty cycle')}
      meta={newest(machine, 'duty.mean', percentText)}
      {...(each
        ? linesOf(each, 'dutyCyclePercent', props)
        : {
            figures: ['duty.mean', 'duty.min'],
            series: [
              { name: trans.__('mean'), colour: '--jp-tpulab-device', fill: true },
              { name: trans.__('minimum'), colour: '--jp-tpulab-input', dash: [4, 3] }
            ]
          })}
      yText={percentText}
      top={100}
    />
  );
}

/** How well the chips are used, according to the runtime and the SDK; no chart where neither reports it. */
function UseChart(props: DeviceChartProps): JSX.Element | null {
  const { each, machine, trans } = props;
  const { sample } = machine;
  const lines: { readonly figure: Figure; readonly line: LineViewSeries; readonly title: string }[] = [];
  if (sample?.sdk?.tensorCorePercent.some(percent => percent !== null)) {
    lines.push({
      figure: 'tensorCore.mean',
      line: { name: trans.__('TensorCore'), colour: '--jp-tpulab-host' },
      title: trans.__('TensorCore')
    });
  }
  if (sample?.devices.some(({ hbmBandwidthPercent }) => hbmBandwidthPercent !== null)) {
    lines.push({
      figure: 'bandwidth.mean',
      line: { name: trans.__('bandwidth'), colour: '--jp-tpulab-compile' },
      title: trans.__('HBM bandwidth')
    });
  }
  const [first] = lines;
  if (!first) {
    return null;
  }
  if (each) {
    return (
      <>
        {lines.map(({ figure, title }) => (
          <FigureChart
            key={figure}
            {...props}
            title={title}
            meta={newest(machine, figure, percentText)}
            {...linesOf(
              each,
              figure === 'tensorCore.mean' ? 'tensorCorePercent' : 'hbmBandwidthPercent',
              props
            )}
            yText={percentText}
            top={100}
          />
        ))}
      </>
    );
  }
  return (
    <FigureChart
      {...props}
      title={lines.length > 1 ? trans.__('TensorCore and HBM bandwidth') : first.title}
      meta={lines.map(({ figure }) => newest(machine, figure, percentText)).join(' · ')}
      figures={lines.map(({ figure }) => figure)}
      series={lines.map(({ line }) => line)}
      yText={percentText}
      top={100}
    />
  );
}

function rangeText(name: RangeName, trans: TranslationBundle): string {
  switch (name) {
    case 'minutes':
      return trans.__('10 min');
    case 'hours':
      return trans.__('2 h');
    case 'days':
      return trans.__('2 days');
  }
}
