/** Rates and MFU of a run in words. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { PaceMessage } from '@tpulab/protocol';
import { countText, threeFigures } from '../text/duration.js';

export interface PaceFigure {
  readonly text: string;
  /** Where the figure is from. */
  readonly title: string;
}

/** MFU first; what is not known is left out. A chip of unknown peak has a rate and no MFU. */
export function paceFigures(
  { mfu, tokensPerSecond, samplesPerSecond }: PaceMessage,
  trans: TranslationBundle
): PaceFigure[] {
  const figures: PaceFigure[] = [];
  if (mfu) {
    const title = sourceText(mfu.source, trans);
    if (mfu.value !== null) {
      const percent = threeFigures(mfu.value * 100);
      figures.push({
        text:
          mfu.source === 'lower-bound'
            ? trans.__('MFU at least %1 %', percent)
            : trans.__('MFU %1 %', percent),
        title: mfu.peakType === null ? title : trans.__('%1, of the peak in %2', title, mfu.peakType)
      });
    } else {
      const speed = flopsText(mfu.flopsPerSecond);
      figures.push({ text: mfu.source === 'lower-bound' ? trans.__('at least %1', speed) : speed, title });
    }
  }
  if (tokensPerSecond !== null) {
    figures.push({ text: trans.__('%1 tokens/s', rate(tokensPerSecond)), title: '' });
  }
  if (samplesPerSecond !== null) {
    figures.push({ text: trans.__('%1 samples/s', rate(samplesPerSecond)), title: '' });
  }
  return figures;
}

/** In the unit that fits: a processor is far from a chip. */
function flopsText(perSecond: number): string {
  const [size, unit] = perSecond >= 1e11 ? [1e12, 'T'] : perSecond >= 1e8 ? [1e9, 'G'] : [1e6, 'M'];
  return `${threeFigures(perSecond / size)} ${unit}FLOP/s`;
}

function rate(value: number): string {
  return value >= 1_000 ? countText(value) : threeFigures(value);
}

function sourceText(source: NonNullable<PaceMessage['mfu']>['source'], trans: TranslationBundle): string {
  switch (source) {
    case 'given':
      return trans.__("From the run's own FLOPs per step");
    case 'counted':
      return trans.__('From operations counted in the programs, loops included');
    case 'lower-bound':
      return trans.__(
        'A lower bound: loops of unknown length count once; custom kernels, and programs compiled ahead of time or before the run was watched, not at all'
      );
  }
}

/** Those of ml-goodput's causes that the agent tells, in words; one that is not known here as it is. */
export function badputName(cause: string, trans: TranslationBundle): string {
  const names: Readonly<Record<string, string>> = {
    TRAINING_PREP: trans.__('preparing the training'),
    PROGRAM_STARTUP: trans.__('compiling and starting programs'),
    DATA_LOADING_SYNC: trans.__('waiting for data'),
    DEVICE_IDLE: trans.__('idle device after its last program'),
    UNPRODUCTIVE_CHECKPOINT_SAVE_TIME: trans.__('saving checkpoints'),
    CUSTOM_BADPUT_EVENTS: trans.__('evaluation, samples and pauses'),
    OTHER: trans.__('other')
  };
  return Object.hasOwn(names, cause) ? (names[cause] ?? cause) : cause;
}
