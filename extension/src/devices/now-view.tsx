/** The present state of the devices: a tile for each, with its problems. The panel's section and the widget show it. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { DevicesMessage } from '@tpulab/protocol';
import type { JSX } from 'react';
import { fromBackticks } from '../text/marked.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { Marked } from '../ui/marked-view.js';
import { HeatView } from './heat-view.js';
import type { MachineTelemetry } from './machine-telemetry.js';
import { summaryText } from './model.js';
import { noTelemetry } from './no-telemetry.js';
import { rangesText } from './owners.js';
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

export interface DevicesNowProps {
  /** Devices of the kernel's runtime; null for none, or an unused runtime. */
  readonly devices: DevicesMessage | null;
  /** Null where the bridge has no sampler. */
  readonly machine: MachineTelemetry | null;
  readonly density: Density | 'auto';
  readonly loop: DrawLoop;
  readonly trans: TranslationBundle;
}

export function DevicesNow({ devices, machine, density, loop, trans }: DevicesNowProps): JSX.Element {
  const sample = machine?.sample ?? null;
  const page = machine?.page ?? null;
  const tiles = tilesOf(sample, devices, page);
  const shape = densityFor(tiles.length, density);
  // Without a sampler no sample will arrive.
  const why = machine && noTelemetry({ sample, page, runtime: devices }, trans);
  return (
    <>
      {tiles.length > 0 ? (
        <>
          {shape === 'grid' ? (
            <HeatView tiles={tiles} loop={loop} trans={trans} />
          ) : (
            <TilesView tiles={tiles} density={shape} trans={trans} />
          )}
          <Remarks summary={summaryOf(tiles)} simulated={areSimulated(sample, devices)} trans={trans} />
        </>
      ) : null}
      {why ? (
        <p className={`jp-TPULabSay${why.act ? ' jp-mod-act' : ''}`}>
          <Marked pieces={fromBackticks(why.text)} />
        </p>
      ) : null}
    </>
  );
}

/** For the heading: `8 devices busy 46% · HBM 11.2 / 15.8 GiB`. */
export function devicesText(
  devices: DevicesMessage | null,
  machine: MachineTelemetry | null,
  trans: TranslationBundle
): string[] {
  const tiles = tilesOf(machine?.sample ?? null, devices, machine?.page ?? null);
  if (tiles.length === 0) {
    return [];
  }
  const summary = summaryOf(tiles);
  const head = headText(summary, tiles, devices, trans);
  return summary.memory ? [head, trans.__('HBM %1', summary.memory.text)] : [head];
}

/** `8 chips busy 87%`, or the runtime's devices where their load is unknown. */
function headText(
  summary: DevicesSummary,
  tiles: readonly DeviceTile[],
  devices: DevicesMessage | null,
  trans: TranslationBundle
): string {
  if (summary.dutyPercent !== null) {
    return trans._n(
      '%1 device busy %2%',
      '%1 devices busy %2%',
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
