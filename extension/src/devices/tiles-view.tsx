/** A row for each device, or a tile where there are many: number, duty cycle, memory, and its problems. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { type JSX, memo } from 'react';
import type { Density, DeviceTile } from './tiles.js';
import { tileText } from './tile-text.js';

export interface TilesViewProps {
  readonly tiles: readonly DeviceTile[];
  readonly density: Exclude<Density, 'grid'>;
  readonly trans: TranslationBundle;
}

export function TilesView({ tiles, density, trans }: TilesViewProps): JSX.Element {
  const isBare = tiles.every(({ memory, dutyPercent }) => memory === null && dutyPercent === null);
  const ofSeveral = new Set(tiles.map(({ processIndex }) => processIndex)).size > 1;
  const shape = isBare && !ofSeveral ? 'jp-mod-bare' : `jp-mod-${density}`;
  return (
    <>
      <ul className={`jp-TPULabDevices-chips ${shape}`} aria-label={trans.__('Devices by number')}>
        {tiles.map(tile => (
          <Tile
            key={`${tile.processIndex ?? ''} ${tile.id}`}
            {...tile}
            density={density}
            ofSeveral={ofSeveral}
            trans={trans}
          />
        ))}
      </ul>
      {isBare ? null : <Legend tiles={tiles} trans={trans} />}
    </>
  );
}

type TileProps = DeviceTile & {
  readonly density: Exclude<Density, 'grid'>;
  readonly ofSeveral: boolean;
  readonly trans: TranslationBundle;
};

/** Redrawn for another figure only. */
const Tile = memo(
  function Tile({ density, ofSeveral, trans, ...tile }: TileProps): JSX.Element {
    const { id, memory, dutyPercent, bandwidthPercent, tensorCorePercent, throttlePercent, link } = tile;
    const { processIndex } = tile;
    const text = tileText(tile, trans);
    const isBad = link === 'unusable' || link === 'minor' || memory?.nearlyFull === true;
    return (
      <li className={`jp-TPULabChip${isBad ? ' jp-mod-full' : ''}`} title={text}>
        <span className="jp-TPULab-number jp-TPULabChip-id">{id}</span>
        {density === 'tiles' && dutyPercent === null && memory === null && ofSeveral ? (
          <span className="jp-TPULab-quiet">{trans.__('host %1', processIndex ?? 0)}</span>
        ) : null}
        {dutyPercent === null ? null : (
          <Bar
            kind="duty"
            percent={dutyPercent}
            name={trans.__('Duty cycle of device %1', id)}
            figure={density}
          />
        )}
        {tensorCorePercent === null || density === 'compact' ? null : (
          <Bar kind="core" percent={tensorCorePercent} name={trans.__('TensorCore of device %1', id)} />
        )}
        {memory ? (
          <Bar
            kind={memory.nearlyFull ? 'full' : 'memory'}
            percent={memory.fraction * 100}
            figure={density}
            name={trans.__('Memory of device %1', id)}
            text={memory.nearlyFull ? trans.__('%1, nearly full', memory.text) : memory.text}
          />
        ) : null}
        {bandwidthPercent === null || density === 'compact' ? null : (
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

/** Each sample has a new memory object; its text contains everything visible. */
function sameField(a: TileProps[keyof TileProps], b: TileProps[keyof TileProps]): boolean {
  if (typeof a === 'number' && typeof b === 'number') {
    return Math.round(a) === Math.round(b);
  }
  const text = (of: TileProps[keyof TileProps]): unknown =>
    typeof of === 'object' && of !== null && 'usedBytes' in of ? of.text : of;
  return text(a) === text(b);
}

interface BarProps {
  readonly kind: 'duty' | 'core' | 'memory' | 'full' | 'bandwidth';
  readonly percent: number;
  readonly name: string;
  readonly text?: string;
  /** Shown beside the bar where there is room. */
  readonly figure?: TilesViewProps['density'];
}

function Bar({ kind, percent, name, text, figure }: BarProps): JSX.Element {
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
  return figure === 'tiles' ? (
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

function Legend({ tiles, trans }: Pick<TilesViewProps, 'tiles' | 'trans'>): JSX.Element {
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
