/** The history of machine and chips: charts over ten minutes, two hours or two days. Host charts other than the CPU's on demand. */
import { type JSX, useEffect, useState } from 'react';
import { clockText, type DevicesHistory, percentText, sizeText } from '@tpulab/protocol';
import { type LineTicks, LineView, type LineViewSeries } from '../ui/charts/line-view.js';
import { type DeviceField, deviceFigure, type Figure, MAX_LINES } from './figures.js';
import { type Range, type RangeName, RANGES, windowOf } from './history-window.js';
import type { MachineSource } from './machine-source.js';
import type { MachineTelemetry } from './machine-telemetry.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { byteTicks, byteTickText } from '../ui/charts/byte-ticks.js';
import { trans } from '../text/trans.js';

interface HistoryViewProps {
  readonly machine: MachineTelemetry;
  readonly source: MachineSource | null;
  readonly first: RangeName;
  readonly loop: DrawLoop;
  readonly paused: boolean;
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
  /** The devices with their own line; null: one line for all devices. */
  readonly each: readonly number[] | null;
}

export function HistoryView(props: HistoryViewProps): JSX.Element {
  const { machine, source, first, paused } = props;
  const [name, setName] = useState(first);
  const [isEach, setIsEach] = useState(false);
  const range = RANGES[name];
  const { history, failure } = useHistory(source, range, paused);
  const version = `${name} ${isEach} ${history?.times.at(-1) ?? 0} ${machine.ring.lastTime}`;
  const ordinals = machine.sample?.devices.map(({ ordinal }) => ordinal) ?? [];
  const hasDevices = ordinals.length > 0;
  const hasLines = ordinals.length > 1 && ordinals.length <= MAX_LINES;
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
            {rangeText(one)}
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
  field: DeviceField
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
  const { each, machine } = props;
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
        ? linesOf(each, 'hbmUsedBytes')
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
  const { each, machine } = props;
  return (
    <FigureChart
      {...props}
      title={trans.__('Duty cycle')}
      meta={newest(machine, 'duty.mean', percentText)}
      {...(each
        ? linesOf(each, 'dutyCyclePercent')
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
  const { each, machine } = props;
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
  if (!first) return null;
  if (each) {
    return (
      <>
        {lines.map(({ figure, title }) => (
          <FigureChart
            key={figure}
            {...props}
            title={title}
            meta={newest(machine, figure, percentText)}
            {...linesOf(each, figure === 'tensorCore.mean' ? 'tensorCorePercent' : 'hbmBandwidthPercent')}
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

function rangeText(name: RangeName): string {
  switch (name) {
    case 'minutes':
      return trans.__('10 min');
    case 'hours':
      return trans.__('2 h');
    case 'days':
      return trans.__('2 days');
  }
}

/** Charts of the host: its CPU, and on demand its memory, network and disk. */
function HostCharts(props: ChartProps): JSX.Element {
  const { machine } = props;
  const [more, setMore] = useState(false);
  const host = machine.sample?.host;
  return (
    <>
      <FigureChart
        {...props}
        title={trans.__('Host CPU')}
        meta={newest(machine, 'host.cpuPercent', percentText)}
        figures={['host.cpuPercent']}
        series={[{ name: trans.__('CPU'), colour: '--jp-tpulab-host', fill: true }]}
        yText={percentText}
        top={100}
      />
      {more ? (
        <>
          <FigureChart
            {...props}
            title={trans.__('Host memory')}
            meta={newest(machine, 'host.memoryUsedBytes', sizeText)}
            figures={['host.memoryUsedBytes']}
            series={[{ name: trans.__('in use'), colour: '--jp-brand-color1', fill: true }]}
            yText={sizeText}
            yTicks={BYTES}
            top={host?.memoryTotalBytes ?? 0}
          />
          {isReported(host?.networkReceivedBytesPerS) ? (
            <RateChart
              {...props}
              title={trans.__('Host network')}
              ways={[
                { figure: 'host.networkReceivedBytesPerS', name: trans.__('received') },
                { figure: 'host.networkSentBytesPerS', name: trans.__('sent') }
              ]}
            />
          ) : null}
          {isReported(host?.diskReadBytesPerS) ? (
            <RateChart
              {...props}
              title={trans.__('Host disk')}
              ways={[
                { figure: 'host.diskReadBytesPerS', name: trans.__('read') },
                { figure: 'host.diskWrittenBytesPerS', name: trans.__('written') }
              ]}
            />
          ) : null}
        </>
      ) : null}
      <button
        type="button"
        className="jp-TPULab-link jp-TPULabHistory-more"
        aria-expanded={more}
        onClick={() => setMore(!more)}
      >
        {more ? trans.__('Show fewer') : trans.__('Host memory, network and disk')}
      </button>
    </>
  );
}

type RateChartProps = ChartProps & {
  readonly title: string;
  readonly ways: readonly [Way, Way];
};

interface Way {
  readonly figure: Figure;
  readonly name: string;
}

/** Bytes per second in both directions, in and out. */
function RateChart(props: RateChartProps): JSX.Element {
  const { title, ways, machine } = props;
  const [first, second] = ways;
  return (
    <FigureChart
      {...props}
      title={title}
      meta={ways.map(({ figure }) => newest(machine, figure, rateText)).join(' · ')}
      figures={[first.figure, second.figure]}
      series={[
        { name: first.name, colour: '--jp-tpulab-device' },
        { name: second.name, colour: '--jp-tpulab-input', dash: [4, 3] }
      ]}
      yText={rateText}
      yTicks={BYTES}
      top={1_024}
    />
  );
}

function rateText(bytesPerS: number): string {
  return `${sizeText(bytesPerS)}/s`;
}

/** Whether the system reports this metric. */
function isReported(figure: number | null | undefined): boolean {
  return typeof figure === 'number';
}

interface HistoryState {
  readonly history: DevicesHistory | null;
  /** Error of the last request; null after a success. */
  readonly failure: string | null;
}

/** After a failure. */
const RETRY_MS = 10_000;

/** React: the history of a machine for a range, requested again periodically while a view is open. */
function useHistory(source: MachineSource | null, range: Range, paused: boolean): HistoryState {
  const [state, setState] = useState<HistoryState & { readonly range: Range | null }>({
    history: null,
    failure: null,
    range: null
  });
  useEffect(() => {
    if (!source || paused) return;
    const stopping = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const setStateUnlessOver: typeof setState = next => {
      if (!stopping.signal.aborted) setState(next);
    };
    const request = (): void => {
      source
        .history(range.tierS, Date.now() - range.lengthMs, stopping.signal)
        .then(
          history => {
            setStateUnlessOver({ history, failure: null, range });
            return range.refreshMs;
          },
          (error: unknown) => {
            setStateUnlessOver(before => ({
              ...before,
              failure: error instanceof Error ? error.message : String(error)
            }));
            return RETRY_MS;
          }
        )
        .then(
          waitMs => {
            if (!stopping.signal.aborted) timer = setTimeout(request, waitMs);
          },
          () => undefined
        );
    };
    request();
    return () => {
      stopping.abort();
      clearTimeout(timer);
    };
  }, [source, range, paused]);
  // Data requested for another range does not belong to this one.
  return state.range === range ? state : { history: null, failure: state.failure };
}

/** The common properties of all charts of a machine. */
interface ChartProps {
  readonly machine: MachineTelemetry;
  readonly history: Parameters<typeof windowOf>[0];
  readonly name: RangeName;
  readonly version: string;
  readonly loop: DrawLoop;
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

const BYTES: LineTicks = { at: byteTicks, text: byteTickText };

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

/** The newest of the samples since this page started monitoring; empty if unknown. */
function newest(machine: MachineTelemetry, figure: Figure, text: (value: number) => string): string {
  const value = machine.ring.value(figure, machine.ring.length - 1);
  return Number.isNaN(value) ? '' : text(value);
}
