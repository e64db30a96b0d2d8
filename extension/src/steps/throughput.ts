/** Throughput and MFU of a run in words. */
import { countText, type ThroughputMessage, threeFigures } from '@tpulab/protocol';
import { trans } from '../text/trans.js';

interface NamedFigure {
  readonly value: string;
  readonly unit: string;
}

interface ComputeFigure extends NamedFigure {
  /** Source of the figure. */
  readonly source: string;
  /** Its components, by name. */
  readonly rows: readonly (readonly [string, string])[];
}

/** MFU; a chip of unknown peak has a rate and no MFU. Null where nothing was counted. */
export function computeFigure({ mfu }: ThroughputMessage): ComputeFigure | null {
  if (!mfu) {
    return null;
  }
  const speed = flopsText(mfu.flopsPerSecond);
  const isLowerBound = mfu.source === 'lower-bound';
  const [value, unit] =
    mfu.value === null ? splitUnit(speed) : [`${threeFigures(mfu.value * 100)}%`, trans.__('MFU')];
  const rows: [string, string][] = mfu.value === null ? [] : [[trans.__('Achieved'), speed]];
  if (mfu.value !== null && mfu.value > 0) {
    const peak = flopsText(mfu.flopsPerSecond / mfu.value);
    rows.push([mfu.peakType === null ? trans.__('Peak') : trans.__('Peak in %1', mfu.peakType), peak]);
  }
  if (isLowerBound && mfu.missing?.length) {
    rows.push([trans.__('Not counted'), mfu.missing.join(', ')]);
  }
  return { value: isLowerBound ? `≥ ${value}` : value, unit, source: sourceText(mfu.source), rows };
}

/** Tokens before samples and updates, because they are the same amount of work in every step. */
export function throughputFigure({
  tokensPerSecond,
  samplesPerSecond,
  updatesPerSecond
}: ThroughputMessage): NamedFigure | null {
  if (tokensPerSecond !== null) {
    return { value: rate(tokensPerSecond), unit: trans.__('tokens/s') };
  }
  if (samplesPerSecond !== null) {
    return { value: rate(samplesPerSecond), unit: trans.__('samples/s') };
  }
  return updatesPerSecond === undefined
    ? null
    : { value: rate(updatesPerSecond), unit: trans.__('updates/s') };
}

function splitUnit(text: string): [string, string] {
  const [value = '', unit = ''] = text.split(' ');
  return [value, unit];
}

const FLOPS_UNITS = [
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k']
] as const;

/** In a suitable unit: a CPU is orders of magnitude slower than a chip. */
function flopsText(perSecond: number): string {
  const [size, unit] = FLOPS_UNITS.find(([size]) => perSecond >= size / 10) ?? [1, ''];
  return `${threeFigures(perSecond / size)} ${unit}FLOP/s`;
}

function rate(value: number): string {
  return value >= 1_000 ? countText(value) : threeFigures(value);
}

function sourceText(source: NonNullable<ThroughputMessage['mfu']>['source']): string {
  switch (source) {
    case 'given':
      return trans.__("From the run's own FLOPs per step");
    case 'counted':
      return trans.__('From operations counted in the programs, loops included');
    case 'lower-bound':
      return trans.__(
        'A lower bound: loops of unknown length count once, a branch as its cheapest arm; custom kernels, and programs compiled ahead of time or before the run was watched, not at all'
      );
  }
}

/** The causes of ml-goodput that the agent reports, in words; an unknown cause stays unchanged. */
export function badputName(cause: string): string {
  const names: Readonly<Record<string, string>> = {
    TRAINING_PREP: trans.__('preparing the training'),
    PROGRAM_STARTUP: trans.__('compiling and starting programs'),
    DATA_LOADING_SYNC: trans.__('waiting for data'),
    DEVICE_IDLE: trans.__('device idle while Python works'),
    UNPRODUCTIVE_CHECKPOINT_SAVE_TIME: trans.__('saving checkpoints'),
    CUSTOM_BADPUT_EVENTS: trans.__('evaluation, samples and pauses'),
    OTHER: trans.__('other')
  };
  return Object.hasOwn(names, cause) ? (names[cause] ?? cause) : cause;
}
