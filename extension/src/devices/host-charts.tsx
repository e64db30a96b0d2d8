/** Charts of the host: its processor, and on demand its memory, network and disk. */
import { type JSX, useState } from 'react';
import { percentText, sizeText } from '@tpulab/protocol';
import type { Figure } from './figures.js';
import { BYTES, type ChartProps, FigureChart, newest } from './figure-chart.js';

export function HostCharts(props: ChartProps): JSX.Element {
  const { machine, trans } = props;
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

/** Not every system reports these. */
function isReported(figure: number | null | undefined): boolean {
  return typeof figure === 'number';
}
