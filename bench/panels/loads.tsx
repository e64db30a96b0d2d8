/** The loads: 600 moving points of four series, the same for our line charts and the peer's; and a slice of many devices. */
import type { JSX } from 'react';
import { Line, LineChart, XAxis, YAxis } from 'recharts';
import { LineView } from '../../extension/src/ui/charts/line-view.js';
import { tilesOf } from '../../extension/src/devices/tiles.js';
import type { DrawLoop } from '../../extension/src/ui/draw-loop.js';

const POINTS = 600;
const NAMES = ['a', 'b', 'c', 'd'] as const;
const VARIABLES = [
  '--jp-brand-color1',
  '--jp-tpulab-input',
  '--jp-tpulab-compile',
  '--jp-tpulab-device'
] as const;
const COLOURS = ['#1976d2', '#d98018', '#8e5bd6', '#1b8f61'] as const;

interface LinesProps {
  readonly loop: DrawLoop;
  /** Grows by one with each drawing. */
  readonly turn: number;
  readonly chart: number;
}

function valueAt(series: number, x: number): number {
  return Math.sin(x / 20 + series) * 40 + 50 + Math.cos(x / 3 + series * 2) * 5;
}

/** Number of different drawings before they repeat. */
export const TURNS = 40;
const ours: number[][][] = [];
const peers: object[][] = [];

/** Prepares the data in each library's format, so that only drawing is measured. */
export function prepare(): void {
  for (let turn = ours.length; turn < TURNS; turn += 1) {
    const xs = Array.from({ length: POINTS }, (_, at) => turn + at);
    const columns = NAMES.map((_, series) => xs.map(x => valueAt(series, x)));
    ours.push([xs, ...columns]);
    peers.push(
      xs.map((x, row) => ({
        x,
        ...Object.fromEntries(NAMES.map((name, series) => [name, columns[series]?.[row]]))
      }))
    );
  }
}

export function OurLines({ loop, turn, chart }: LinesProps): JSX.Element {
  const data = ours[turn] ?? [];
  return (
    <LineView
      title={`chart ${chart}`}
      meta=""
      series={NAMES.map((name, at) => ({ name, colour: VARIABLES[at] ?? VARIABLES[0] }))}
      data={data}
      version={turn}
      loop={loop}
      xText={String}
      yText={value => value.toFixed(0)}
      yRange={() => [0, 100]}
    />
  );
}

/** Draws charts as the GPU dashboard does: React components, without animation. */
export function PeerLines({ turn }: LinesProps): JSX.Element {
  const data = peers[turn] ?? [];
  return (
    <LineChart width={340} height={120} data={data}>
      <XAxis dataKey="x" />
      <YAxis domain={[0, 100]} />
      {NAMES.map((name, at) => (
        <Line
          key={name}
          dataKey={name}
          stroke={COLOURS[at] ?? 'gray'}
          dot={false}
          isAnimationActive={false}
        />
      ))}
    </LineChart>
  );
}

/** Figures of a slice that change each time. */
export function tilesAt(count: number, turn: number) {
  const gib = 2 ** 30;
  return tilesOf(
    {
      time: turn,
      host: {
        cpuPercent: 1,
        cores: 1,
        load1: 1,
        memoryUsedBytes: 1,
        memoryTotalBytes: 2,
        diskReadBytesPerS: null,
        diskWrittenBytesPerS: null,
        networkReceivedBytesPerS: null,
        networkSentBytesPerS: null
      },
      devices: Array.from({ length: count }, (_, ordinal) => ({
        ordinal,
        chip: ordinal,
        hbmTotalBytes: 16 * gib,
        idleS: 0,
        hloQueueSize: 0,
        hbmUsedBytes: (8 + 4 * Math.sin(turn / 9 + ordinal)) * gib,
        dutyCyclePercent: 60 + 39 * Math.sin(turn / 5 + ordinal / 7),
        hbmBandwidthPercent: 40
      })),
      metrics: { state: 'serving', detail: null }
    },
    null,
    null
  );
}
