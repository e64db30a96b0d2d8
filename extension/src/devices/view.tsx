/** The devices section: the machine from outside, the kernel's devices from inside, who holds the chips, and what went before. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { DevicesMessage, MemoryMessage } from '@tpulab/protocol';
import { type JSX, useState } from 'react';
import type { RangeName } from './history-window.js';
import type { MachineSource } from './machine-source.js';
import type { MachineTelemetry } from './machine-telemetry.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { fromBackticks } from '../text/marked.js';
import { Marked } from '../ui/marked-view.js';
import { HeatView } from './heat-view.js';
import { MemoryView } from './held-arrays.js';
import { HistoryView } from './history-view.js';
import { HostView } from './host-view.js';
import { summaryText } from './model.js';
import { noTelemetry } from './no-telemetry.js';
import { holdersOf, rangesText } from './owners.js';
import { OwnersView } from './owners-view.js';
import { linkText } from './tile-text.js';
import {
  areSimulated,
  type Density,
  densityFor,
  type DevicesSummary,
  type DeviceTile,
  summaryOf,
  tilesOf
} from './tiles.js';
import { TilesView } from './tiles-view.js';
import { TopologyView } from './topology-view.js';

export interface DevicesViewProps {
  /** What the kernel's runtime says; null for none, or a runtime that was not used. */
  readonly devices: DevicesMessage | null;
  /** Null where the bridge has no sampler. */
  readonly machine: MachineTelemetry | null;
  readonly source: MachineSource | null;
  readonly density: Density | 'auto';
  readonly range: RangeName;
  readonly showHistory: boolean;
  readonly loop: DrawLoop;
  readonly paused: boolean;
  readonly documentOf: (kernelId: string) => string | null;
  readonly onShow: (document: string) => void;
  readonly onRelease: (kernelId: string) => void;
  /** Who holds memory now, by array; null before somebody has asked. */
  readonly memory: MemoryMessage | null;
  /** Null where the kernel cannot be asked, or has no arrays. */
  readonly onAskMemory: (() => void) | null;
  readonly isAskingMemory: boolean;
  readonly onRemoveLock: () => void;
  readonly trans: TranslationBundle;
}

export function DevicesView(props: DevicesViewProps): JSX.Element {
  const { devices, machine, source, loop, trans } = props;
  const sample = machine?.sample ?? null;
  const page = machine?.page ?? null;
  const tiles = tilesOf(sample, devices, page);
  const summary = summaryOf(tiles);
  const density = densityFor(tiles.length, props.density);
  const [isMore, setMore] = useState(false);
  const why = noTelemetry({ sample, page, runtime: devices }, trans);
  return (
    <div className="jp-TPULabDevices">
      {tiles.length > 0 ? (
        <>
          {density === 'grid' ? (
            <HeatView tiles={tiles} loop={loop} trans={trans} />
          ) : (
            <TilesView tiles={tiles} density={density} trans={trans} />
          )}
          <Remarks summary={summary} simulated={areSimulated(sample, devices)} trans={trans} />
        </>
      ) : null}
      {why ? (
        <p className={`jp-TPULabSay${why.act ? ' jp-mod-act' : ''}`}>
          <Marked pieces={fromBackticks(why.text)} />
        </p>
      ) : null}
      {page && page.chips.length > 0 ? (
        <>
          <ChipsLine chips={page.chips} accelerator={page.accelerator.type} trans={trans} />
          <OwnersView
            holders={holdersOf(page, machine?.holders ?? null, props.documentOf)}
            lock={machine?.holders?.lock ?? null}
            onShow={props.onShow}
            onRelease={props.onRelease}
            onRemoveLock={props.onRemoveLock}
            trans={trans}
          />
        </>
      ) : null}
      {sample ? <HostView host={sample.host} trans={trans} /> : null}
      {devices && props.onAskMemory ? (
        <MemoryView
          memory={props.memory}
          onAsk={props.onAskMemory}
          isAsking={props.isAskingMemory}
          trans={trans}
        />
      ) : null}
      {machine && sample && (props.showHistory || page?.chips.length) ? (
        <details className="jp-TPULabMore" onToggle={event => setMore(event.currentTarget.open)}>
          <summary>{trans.__('History and topology')}</summary>
          {isMore && page && page.chips.length > 0 ? (
            <TopologyView accelerator={page.accelerator} tiles={tiles} trans={trans} />
          ) : null}
          {isMore && props.showHistory ? (
            <HistoryView
              machine={machine}
              source={source}
              first={props.range}
              loop={loop}
              paused={props.paused}
              trans={trans}
            />
          ) : null}
        </details>
      ) : null}
    </div>
  );
}

/** For the heading: `8 devices busy 46 % · HBM 11.2 / 15.8 GiB`. */
export function devicesText(
  devices: DevicesMessage | null,
  machine: MachineTelemetry | null,
  trans: TranslationBundle
): string {
  const tiles = tilesOf(machine?.sample ?? null, devices, machine?.page ?? null);
  if (tiles.length === 0) {
    return '';
  }
  const summary = summaryOf(tiles);
  const head = headText(summary, tiles, devices, trans);
  return summary.memory ? `${head} · ${trans.__('HBM %1', summary.memory.text)}` : head;
}

/** `8 chips busy 87 %`, or what the runtime has where nobody knows how busy it is. */
function headText(
  summary: DevicesSummary,
  tiles: readonly DeviceTile[],
  devices: DevicesMessage | null,
  trans: TranslationBundle
): string {
  if (summary.dutyPercent !== null) {
    return trans._n(
      '%1 device busy %2 %',
      '%1 devices busy %2 %',
      summary.count,
      Math.round(summary.dutyPercent)
    );
  }
  return devices && devices.devices.length === tiles.length
    ? summaryText(devices, trans)
    : trans._n('%1 device', '%1 devices', summary.count);
}

function Remarks({
  summary,
  simulated,
  trans
}: {
  readonly summary: DevicesSummary;
  readonly simulated: boolean;
  readonly trans: TranslationBundle;
}): JSX.Element {
  const { full, throttled, link } = summary;
  return (
    <>
      {full.length > 0 ? (
        <p className="jp-TPULabSay jp-mod-act">
          {trans._n(
            'Memory of device %2 is nearly full. A smaller batch makes room.',
            'Memory of devices %2 is nearly full. A smaller batch makes room.',
            full.length,
            rangesText(full)
          )}
        </p>
      ) : null}
      {throttled.length > 0 ? (
        <p className="jp-TPULabSay jp-mod-act">
          {trans._n(
            'Device %2 is throttled to stay within its heat or power limit.',
            'Devices %2 are throttled to stay within their heat or power limits.',
            throttled.length,
            rangesText(throttled)
          )}
        </p>
      ) : null}
      {link !== null && link !== 'healthy' ? (
        <p className="jp-TPULabSay jp-mod-act">
          {trans.__('Between chips, %1; collectives may be slow or fail.', linkText(link, trans))}
        </p>
      ) : null}
      {simulated ? (
        <p className="jp-TPULabDevices-note">
          {trans.__("These devices share this machine's CPU: enough to try out programs for several chips.")}
        </p>
      ) : null}
    </>
  );
}

/** A chip that is in no table is called by its PCI id: what is known of it is shown, and nothing is made up. */
function ChipsLine({
  chips,
  accelerator,
  trans
}: {
  readonly chips: readonly { readonly name: string | null; readonly pciDevice: string }[];
  readonly accelerator: string | null;
  readonly trans: TranslationBundle;
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
