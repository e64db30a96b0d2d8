/** All known data of a device, in one line: for a title, a readout and screen readers. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { secondsText, sizeText } from '@tpulab/protocol';
import type { LinkState } from './sdk.js';
import type { DeviceTile } from './tiles.js';

export function tileText(tile: DeviceTile, trans: TranslationBundle): string {
  const { id, kind, chip, processIndex, memory, peakBytes } = tile;
  const parts = [
    kind === '' ? trans.__('device %1', id) : trans.__('device %1, %2', id, kind),
    ...(chip === null ? [] : [trans.__('chip %1', chip)]),
    ...(processIndex === null ? [] : [trans.__('host %1', processIndex)])
  ];
  const figures = [
    ...(tile.dutyPercent === null ? [] : [trans.__('busy %1%', Math.round(tile.dutyPercent))]),
    ...(tile.tensorCorePercent === null
      ? []
      : [trans.__('TensorCore %1%', Math.round(tile.tensorCorePercent))]),
    ...(memory === null ? [] : [trans.__('memory %1', memory.text)]),
    ...(peakBytes === null ? [] : [trans.__('peak %1', sizeText(peakBytes))]),
    ...(tile.bandwidthPercent === null ? [] : [trans.__('bandwidth %1%', Math.round(tile.bandwidthPercent))]),
    ...(tile.queued === null ? [] : [trans._n('%1 program queued', '%1 programs queued', tile.queued)]),
    ...(tile.idleS === null || tile.idleS < 1
      ? []
      : [trans.__('idle for %1', secondsText(tile.idleS * 1_000))]),
    ...(tile.throttlePercent === null || tile.throttlePercent === 0
      ? []
      : [trans.__('throttled by %1%', Math.round(tile.throttlePercent))]),
    ...(tile.link === null ? [] : [linkText(tile.link, trans)])
  ];
  return figures.length === 0 ? parts.join(', ') : `${parts.join(', ')}: ${figures.join(' · ')}`;
}

export function linkText(link: LinkState, trans: TranslationBundle): string {
  switch (link) {
    case 'healthy':
      return trans.__('links healthy');
    case 'transient':
      return trans.__('a link had transient problems');
    case 'minor':
      return trans.__('a link has a persistent problem');
    case 'unusable':
      return trans.__('a link is unusable');
  }
}
