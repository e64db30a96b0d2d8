/** What machine and chips did: charts over ten minutes, two hours or two days. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { type JSX, useState } from 'react';
import { byteTicks, byteTickText } from '../charts/byte-ticks.js';
import { type LineTicks, LineView, type LineViewSeries } from '../charts/line-view.js';
import { clockText } from '../charts/clock-text.js';
import type { Figure } from '../machine/figures.js';
import { type RangeName, RANGES, windowOf } from '../machine/history-window.js';
import type { MachineSource } from '../machine/machine-source.js';
import type { MachineTelemetry } from '../machine/machine-telemetry.js';
import type { DrawLoop } from '../steps/draw-loop.js';
import { sizeText } from '../text/size.js';
import { useHistory } from './use-history.js';

export interface HistoryViewProps {
  readonly machine: MachineTelemetry;
  readonly source: MachineSource | null;
  readonly first: RangeName;
  readonly loop: DrawLoop;
  readonly paused: boolean;
  readonly trans: TranslationBundle;
}

const BYTES: LineTicks = { at: byteTicks, text: byteTickText };
const NAMES: readonly RangeName[] = ['minutes', 'hours', 'days'];

export function HistoryView(props: HistoryViewProps): JSX.Element {
  const { machine, source, first, paused, trans } = props;
  const [name, setName] = useState(first);
  const range = RANGES[name];
  const { history, failure } = useHistory(source, range, paused);
  const version = `${name} ${history?.times.at(-1) ?? 0} ${machine.ring.lastTime}`;
  const chart = { ...props, name, version, history };
  const { sample } = machine;
  const hasDevices = (sample?.devices.length ?? 0) > 0;
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
      </div>
      {hasDevices ? <MemoryChart {...chart} /> : null}
      {hasDevices ? <DutyChart {...chart} /> : null}
      <HostChart {...chart} />
      {failure === null ? null : <p className="jp-TPULab-quiet">{failure}</p>}
    </div>
  );
}

type ChartProps = HistoryViewProps & {
  readonly name: RangeName;
  readonly version: string;
  readonly history: Parameters<typeof windowOf>[0];
};

function MemoryChart(props: ChartProps): JSX.Element {
  const { machine, trans } = props;
  const total = Math.max(
    0,
    ...(machine.sample?.devices.map(({ hbmTotalBytes }) => hbmTotalBytes ?? 0) ?? [])
  );
  const now = machine.ring.value('hbm.max', machine.ring.length - 1);
  return (
    <FigureChart
      {...props}
      title={trans.__('HBM of a device')}
      meta={Number.isNaN(now) ? '' : sizeText(now)}
      figures={['hbm.max', 'hbm.mean']}
      series={[
        { name: trans.__('fullest'), colour: '--jp-brand-color1', fill: true },
        { name: trans.__('mean'), colour: '--jp-ui-font-color2', dash: [4, 3] }
      ]}
      yText={sizeText}
      yTicks={BYTES}
      top={total}
    />
  );
}

function DutyChart(props: ChartProps): JSX.Element {
  const { machine, trans } = props;
  const now = machine.ring.value('duty.mean', machine.ring.length - 1);
  return (
    <FigureChart
      {...props}
      title={trans.__('Duty cycle')}
      meta={Number.isNaN(now) ? '' : percentText(now)}
      figures={['duty.mean', 'duty.min']}
      series={[
        { name: trans.__('mean'), colour: '--jp-tpulab-device', fill: true },
        { name: trans.__('least busy'), colour: '--jp-tpulab-input', dash: [4, 3] }
      ]}
      yText={percentText}
      top={100}
    />
  );
}

function HostChart(props: ChartProps): JSX.Element {
  const { machine, trans } = props;
  const now = machine.ring.value('host.cpuPercent', machine.ring.length - 1);
  return (
    <FigureChart
      {...props}
      title={trans.__('Processor of the host')}
      meta={Number.isNaN(now) ? '' : percentText(now)}
      figures={['host.cpuPercent']}
      series={[{ name: trans.__('CPU'), colour: '--jp-tpulab-host', fill: true }]}
      yText={percentText}
      top={100}
    />
  );
}

interface FigureChartProps extends ChartProps {
  readonly title: string;
  readonly meta: string;
  readonly figures: readonly Figure[];
  readonly series: readonly LineViewSeries[];
  readonly yText: (value: number) => string;
  readonly yTicks?: LineTicks;
  readonly top: number;
}

function FigureChart(props: FigureChartProps): JSX.Element {
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

function percentText(value: number): string {
  return `${Math.round(value)} %`;
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
