/**
 * The current state of the devices: a row for each, or a grid of many, with their problems. The panel's section and the widget show
 * it.
 */
import { type JSX, memo } from 'react';
import type { DevicesMessage, DevicesPage, MachineSample } from '@tpulab/protocol';
import { fromBackticks, withBackticks } from '../text/marked.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { Marked } from '../ui/marked-view.js';
import { HeatView } from './heat-view.js';
import type { MachineTelemetry } from './machine-telemetry.js';
import { summaryText } from './model.js';
import { rangesText } from './owners.js';
import {
  areSimulated,
  type DevicesSummary,
  type DeviceTile,
  linkText,
  MAX_ROWS,
  summaryOf,
  tilesOf,
  tileText
} from './tiles.js';
import { trans } from '../text/trans.js';

interface DevicesNowProps {
  /** Devices of the kernel's runtime; null for none, or an unused runtime. */
  readonly devices: DevicesMessage | null;
  /** Null where the bridge has no sampler. */
  readonly machine: MachineTelemetry | null;
  readonly loop: DrawLoop;
}

export function DevicesNow({ devices, machine, loop }: DevicesNowProps): JSX.Element {
  const sample = machine?.sample ?? null;
  const page = machine?.page ?? null;
  const tiles = tilesOf(sample, devices, page);
  // Without a sampler no sample will arrive.
  const why = machine && noTelemetry({ sample, page, runtime: devices });
  return (
    <>
      {tiles.length > 0 ? (
        <>
          {tiles.length > MAX_ROWS ? <HeatView tiles={tiles} loop={loop} /> : <TilesView tiles={tiles} />}
          <Remarks summary={summaryOf(tiles)} simulated={areSimulated(sample, devices)} />
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
export function devicesText(devices: DevicesMessage | null, machine: MachineTelemetry | null): string[] {
  const tiles = tilesOf(machine?.sample ?? null, devices, machine?.page ?? null);
  if (tiles.length === 0) return [];
  const summary = summaryOf(tiles);
  const head = headText(summary, tiles, devices);
  return summary.memory ? [head, trans.__('HBM %1', summary.memory.text)] : [head];
}

/** `8 chips busy 87%`, or the runtime's devices where their load is unknown. */
function headText(
  summary: DevicesSummary,
  tiles: readonly DeviceTile[],
  devices: DevicesMessage | null
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
    ? summaryText(devices)
    : trans._n('%1 device', '%1 devices', summary.count);
}

function Remarks({
  summary,
  simulated
}: {
  readonly summary: DevicesSummary;
  readonly simulated: boolean;
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
          {trans.__('Between chips, %1; collectives may be slow or fail.', linkText(link))}
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

/** Why there are no chip metrics, in a sentence with the remedy. */
interface NoTelemetry {
  readonly text: string;
  /** The user can do something. */
  readonly act: boolean;
}

interface MachineFacts {
  readonly sample: MachineSample | null;
  readonly page: DevicesPage | null;
  readonly runtime: DevicesMessage | null;
}

/** Null when chips report their metrics, or when none are expected (a machine without chips whose runtime is known). */
export function noTelemetry(known: MachineFacts): NoTelemetry | null {
  const { sample, page, runtime } = known;
  if (!sample) return { text: trans.__('Waiting for the first sample of the machine.'), act: false };
  const chips = page?.chips.length ?? 0;
  switch (sample.metrics.state) {
    case 'serving':
      return sample.metrics.detail === null
        ? null
        : { text: trans.__('Some chips report no metrics: %1.', sample.metrics.detail), act: true };
    case 'failing':
      return {
        text: trans.__(
          'The process that holds the chips reports no metrics: %1. Another container or an older libtpu may own the port; restart that process to free it.',
          sample.metrics.detail ?? trans.__('it does not answer')
        ),
        act: true
      };
    case 'idle':
      return idleText(known, chips);
    case 'no-chips':
      return runtime
        ? null
        : {
            text: trans.__(
              'This machine has no TPU. The devices of XLA appear when a cell uses them: %1',
              withBackticks('jax.devices()')
            ),
            act: false
          };
  }
}

function idleText({ page, runtime }: MachineFacts, chips: number): NoTelemetry {
  const owners = page?.chips.flatMap(chip => chip.owners) ?? [];
  if (runtime && runtime.platform === 'cpu' && chips > 0) {
    return {
      text: trans.__(
        'This machine has chips, but the kernel computes on the CPU. Restart the kernel, and check that its environment has libtpu.'
      ),
      act: true
    };
  }
  if (owners.length > 0) {
    return {
      text: trans.__(
        'A process holds the chips but serves no metrics: its libtpu is too old, or it uses another port (%1).',
        withBackticks('TPU_RUNTIME_METRICS_PORTS')
      ),
      act: true
    };
  }
  const use = withBackticks('jax.devices()');
  if (chips > 0) {
    return {
      text: trans.__('The chips are free. Metrics appear when a cell uses them: %1', use),
      act: false
    };
  }
  // The environment indicates chips. Whether unlisted chips are free is unknown.
  const text = page
    ? trans.__(
        'No chip is listed and no process reports metrics; a container may hide them. Metrics appear when a cell uses the chips: %1',
        use
      )
    : trans.__('Chip metrics appear when a cell uses the chips: %1', use);
  return { text, act: false };
}

interface TilesViewProps {
  readonly tiles: readonly DeviceTile[];
}

/** A row for each device: number, duty cycle, memory, and its problems. */
function TilesView({ tiles }: TilesViewProps): JSX.Element {
  const hasNoMetrics = tiles.every(({ memory, dutyPercent }) => memory === null && dutyPercent === null);
  const ofSeveral = new Set(tiles.map(({ processIndex }) => processIndex)).size > 1;
  const shape = hasNoMetrics && !ofSeveral ? 'jp-mod-bare' : 'jp-mod-rows';
  return (
    <>
      <ul className={`jp-TPULabDevices-chips ${shape}`} aria-label={trans.__('Devices by number')}>
        {tiles.map(tile => (
          <Tile key={`${tile.processIndex ?? ''} ${tile.id}`} {...tile} ofSeveral={ofSeveral} />
        ))}
      </ul>
      {hasNoMetrics ? null : <Legend tiles={tiles} />}
    </>
  );
}

type TileProps = DeviceTile & {
  readonly ofSeveral: boolean;
};

/** Redrawn for another figure only. */
const Tile = memo(
  function Tile({ ofSeveral, ...tile }: TileProps): JSX.Element {
    const { id, memory, dutyPercent, bandwidthPercent, tensorCorePercent, throttlePercent, link } = tile;
    const { processIndex } = tile;
    const text = tileText(tile);
    const isBad = link === 'unusable' || link === 'minor' || memory?.nearlyFull === true;
    return (
      <li className={`jp-TPULabChip${isBad ? ' jp-mod-full' : ''}`} title={text}>
        <span className="jp-TPULab-number jp-TPULabChip-id">{id}</span>
        {dutyPercent === null && memory === null && ofSeveral ? (
          <span className="jp-TPULab-quiet">{trans.__('host %1', processIndex ?? 0)}</span>
        ) : null}
        {dutyPercent === null ? null : (
          <Bar kind="duty" percent={dutyPercent} name={trans.__('Duty cycle of device %1', id)} hasFigure />
        )}
        {tensorCorePercent === null ? null : (
          <Bar kind="core" percent={tensorCorePercent} name={trans.__('TensorCore of device %1', id)} />
        )}
        {memory ? (
          <Bar
            kind={memory.nearlyFull ? 'full' : 'memory'}
            percent={memory.fraction * 100}
            hasFigure
            name={trans.__('Memory of device %1', id)}
            text={memory.nearlyFull ? trans.__('%1, nearly full', memory.text) : memory.text}
          />
        ) : null}
        {bandwidthPercent === null ? null : (
          <Bar kind="bandwidth" percent={bandwidthPercent} name={trans.__('Bandwidth of device %1', id)} />
        )}
        {(throttlePercent ?? 0) > 0 || (link !== null && link !== 'healthy') ? (
          <span className="jp-TPULabChip-marks" aria-hidden="true">
            {(throttlePercent ?? 0) > 0 ? '▼' : ''}
            {link !== null && link !== 'healthy' ? '✕' : ''}
          </span>
        ) : null}
      </li>
    );
  },
  (a, b) => (Object.keys(a) as (keyof TileProps)[]).every(name => sameField(a[name], b[name]))
);

/** Compares memory by its text: each sample has a new memory object, and the text contains everything visible. */
function sameField(a: TileProps[keyof TileProps], b: TileProps[keyof TileProps]): boolean {
  if (typeof a === 'number' && typeof b === 'number') return Math.round(a) === Math.round(b);
  const text = (of: TileProps[keyof TileProps]): unknown =>
    typeof of === 'object' && of !== null && 'usedBytes' in of ? of.text : of;
  return text(a) === text(b);
}

interface BarProps {
  readonly kind: 'duty' | 'core' | 'memory' | 'full' | 'bandwidth';
  readonly percent: number;
  readonly name: string;
  readonly text?: string;
  readonly hasFigure?: boolean;
}

function Bar({ kind, percent, name, text, hasFigure = false }: BarProps): JSX.Element {
  const whole = Math.round(percent);
  const bar = (
    <span
      className={`jp-TPULabChip-bar jp-mod-${kind}`}
      role="meter"
      aria-label={name}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={whole}
      aria-valuetext={text ?? `${whole}%`}
    >
      <span className={`jp-TPULabChip-used jp-mod-${kind}`} style={{ width: `${whole}%` }} />
    </span>
  );
  return hasFigure ? (
    <>
      {bar}
      <span className="jp-TPULab-number jp-TPULabChip-figure" aria-hidden="true">
        {whole}%
      </span>
    </>
  ) : (
    bar
  );
}

function Legend({ tiles }: Pick<TilesViewProps, 'tiles'>): JSX.Element {
  const some = (test: (tile: DeviceTile) => boolean): boolean => tiles.some(test);
  return (
    <p className="jp-TPULabDevices-legend" aria-hidden="true">
      {some(({ dutyPercent }) => dutyPercent !== null) ? (
        <Key kind="duty" name={trans.__('duty cycle')} />
      ) : null}
      {some(({ tensorCorePercent }) => tensorCorePercent !== null) ? (
        <Key kind="core" name={trans.__('TensorCore')} />
      ) : null}
      {some(({ memory }) => memory !== null) ? <Key kind="memory" name={trans.__('HBM')} /> : null}
      {some(({ bandwidthPercent }) => bandwidthPercent !== null) ? (
        <Key kind="bandwidth" name={trans.__('HBM bandwidth')} />
      ) : null}
      {some(({ throttlePercent }) => (throttlePercent ?? 0) > 0) ? (
        <span>{trans.__('▼ throttled')}</span>
      ) : null}
      {some(({ link }) => link !== null && link !== 'healthy') ? <span>{trans.__('✕ link')}</span> : null}
    </p>
  );
}

function Key({ kind, name }: { readonly kind: BarProps['kind']; readonly name: string }): JSX.Element {
  return (
    <span>
      <span className={`jp-TPULabDevices-key jp-mod-${kind}`} /> {name}
    </span>
  );
}
