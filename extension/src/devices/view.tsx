/** The devices section: the machine from outside, the kernel's devices from inside, the holders of the chips, and the history. */
import { type JSX, memo, useState } from 'react';
import {
  type DevicesMessage,
  type HostFigures,
  type MemoryMessage,
  percentText,
  sizeText,
  usageText
} from '@tpulab/protocol';
import type { RangeName } from './history-window.js';
import type { MachineSource } from './machine-source.js';
import type { MachineTelemetry } from './machine-telemetry.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { MemoryView } from './held-arrays.js';
import { HistoryView } from './history-view.js';
import { DevicesNow } from './now-view.js';
import { holdersOf } from './owners.js';
import { OwnersView } from './owners-view.js';
import { tilesOf } from './tiles.js';
import { TopologyView } from './topology-view.js';
import { trans } from '../text/trans.js';

interface DevicesViewProps {
  /** Devices of the kernel's runtime; null for none, or an unused runtime. */
  readonly devices: DevicesMessage | null;
  /** Null where the bridge has no sampler. */
  readonly machine: MachineTelemetry | null;
  readonly source: MachineSource | null;
  readonly range: RangeName;
  readonly showHistory: boolean;
  readonly loop: DrawLoop;
  readonly paused: boolean;
  readonly documentOf: (kernelId: string) => string | null;
  readonly onShow: (document: string) => void;
  readonly onRelease: (kernelId: string) => void;
  /** The holders of memory now, by array; null before the first request. */
  readonly memory: MemoryMessage | null;
  /** Null where no request can be sent to the kernel, or it has no arrays. */
  readonly onRequestMemory: (() => void) | null;
  readonly isLoadingMemory: boolean;
  /** Why the newest request had no answer. */
  readonly memoryFailure: string | null;
  readonly onRemoveLock: () => void;
}

export function DevicesView(props: DevicesViewProps): JSX.Element {
  const { devices, machine, source, loop } = props;
  const sample = machine?.sample ?? null;
  const page = machine?.page ?? null;
  const [isMore, setMore] = useState(false);
  return (
    <div className="jp-TPULabDevices">
      <DevicesNow devices={devices} machine={machine} loop={loop} />
      {page && page.chips.length > 0 ? (
        <>
          <ChipsLine chips={page.chips} accelerator={page.accelerator.type} />
          <OwnersView
            holders={holdersOf(page, machine?.holders ?? null, props.documentOf)}
            lock={machine?.holders?.lock ?? null}
            onShow={props.onShow}
            onRelease={props.onRelease}
            onRemoveLock={props.onRemoveLock}
          />
        </>
      ) : null}
      {sample ? <HostView host={sample.host} /> : null}
      {devices && props.onRequestMemory ? (
        <MemoryView
          memory={props.memory}
          onRequest={props.onRequestMemory}
          isLoading={props.isLoadingMemory}
          failure={props.memoryFailure}
        />
      ) : null}
      {machine && sample && (props.showHistory || page?.chips.length) ? (
        <details className="jp-TPULabMore" onToggle={event => setMore(event.currentTarget.open)}>
          <summary>{trans.__('History and topology')}</summary>
          {isMore && page && page.chips.length > 0 ? (
            <TopologyView accelerator={page.accelerator} tiles={tilesOf(sample, devices, page)} />
          ) : null}
          {isMore && props.showHistory ? (
            <HistoryView
              machine={machine}
              source={source}
              first={props.range}
              loop={loop}
              paused={props.paused}
            />
          ) : null}
        </details>
      ) : null}
    </div>
  );
}

/** A chip in no table is named by its PCI id: only known data is shown. */
function ChipsLine({
  chips,
  accelerator
}: {
  readonly chips: readonly { readonly name: string | null; readonly pciDevice: string }[];
  readonly accelerator: string | null;
}): JSX.Element {
  const unknown = [...new Set(chips.filter(({ name }) => name === null).map(({ pciDevice }) => pciDevice))];
  const names = [...new Set(chips.map(({ name }) => name ?? trans.__('unknown')))].join(', ');
  return (
    <>
      <p className="jp-TPULab-row jp-TPULab-quiet">
        <span>{trans._n('%1 chip: %2', '%1 chips: %2', chips.length, names)}</span>
        <span className="jp-TPULab-number">{accelerator ?? ''}</span>
      </p>
      {unknown.length > 0 ? (
        <p className="jp-TPULab-quiet">
          {trans.__(
            'PCI device %1 is not in the chip table, so its peak rate and the MFU are unknown. Add its name, rate and device kinds with --chip-table, then start a new kernel.',
            unknown.join(', ')
          )}
        </p>
      ) : null}
    </>
  );
}

interface HostViewProps {
  readonly host: HostFigures;
}

/** The host of the chips: CPU, memory, disk and network. Metrics that this system does not report are omitted. */
const HostView = memo(function HostView({ host }: HostViewProps): JSX.Element {
  const { cpuPercent, cores, memoryUsedBytes, memoryTotalBytes } = host;
  const rate = (bytes: number | null): string => (bytes === null ? '–' : `${sizeText(bytes)}/s`);
  return (
    <dl className="jp-TPULabHost" aria-label={trans.__('The host')}>
      <div>
        <dt title={trans._n('%1 core', '%1 cores', cores)}>{trans.__('Host CPU')}</dt>
        <dd>{cpuPercent === null ? '–' : percentText(cpuPercent)}</dd>
      </div>
      <div>
        <dt>{trans.__('RAM')}</dt>
        <dd>
          {memoryUsedBytes === null || memoryTotalBytes === null
            ? '–'
            : usageText(memoryUsedBytes, memoryTotalBytes)}
        </dd>
      </div>
      {host.diskReadBytesPerS === null && host.diskWrittenBytesPerS === null ? null : (
        <div>
          <dt>{trans.__('Disk')}</dt>
          <dd title={trans.__('read and written')}>
            {trans.__('%1 in, %2 out', rate(host.diskReadBytesPerS), rate(host.diskWrittenBytesPerS))}
          </dd>
        </div>
      )}
      {host.networkReceivedBytesPerS === null && host.networkSentBytesPerS === null ? null : (
        <div>
          <dt>{trans.__('Network')}</dt>
          <dd title={trans.__('received and sent')}>
            {trans.__('%1 in, %2 out', rate(host.networkReceivedBytesPerS), rate(host.networkSentBytesPerS))}
          </dd>
        </div>
      )}
    </dl>
  );
});
