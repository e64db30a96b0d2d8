/** Why there are no figures of chips, in a sentence with the remedy. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { DevicesMessage, DevicesPage, MachineSample } from '@tpulab/protocol';
import { withBackticks } from '../text/marked.js';

export interface NoTelemetry {
  readonly text: string;
  /** The user can do something. */
  readonly act: boolean;
}

export interface KnownOfMachine {
  readonly sample: MachineSample | null;
  readonly page: DevicesPage | null;
  readonly runtime: DevicesMessage | null;
}

/** Null when chips report their figures, or when none are expected (a machine without chips whose runtime is known). */
export function noTelemetry(known: KnownOfMachine, trans: TranslationBundle): NoTelemetry | null {
  const { sample, page, runtime } = known;
  if (!sample) {
    return { text: trans.__('Waiting for the first sample of the machine.'), act: false };
  }
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
      return idleText(known, chips, trans);
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

function idleText({ page, runtime }: KnownOfMachine, chips: number, trans: TranslationBundle): NoTelemetry {
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
