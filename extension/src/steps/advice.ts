/**
 * One sentence in words: the limit of the step, and the remedy.
 *
 * Thresholds are shares of the time of the steps shown. Input, host and gap are judged without compiling, which has a
 * threshold of its own, because one long compilation would hide them. Input and gap use the 10% from which the XLA
 * profiler reports infeed and an idle core. Host has a higher one, because some dispatch is always there.
 */
import { countText, durationText } from '@tpulab/protocol';
import { shareOf, type StepSummary } from './summary.js';
import { trans } from '../text/trans.js';

const INPUT_LIMIT = 0.1;
const GAP_LIMIT = 0.1;
const HOST_LIMIT = 0.25;
const COMPILE_LIMIT = 0.1;
/** From this share on the device counts as the limit. */
const DEVICE_LIMIT = 0.7;
/** Utilization of the peak below which the XLA profiler rates a device as badly used, and from which it rates it as well used. */
const USE_LOW = 0.5;
const USE_HIGH = 0.7;
/** Fewer steps without compiling are not meaningful yet. */
const STEPS_NEEDED = 3;

export type Limit = 'measuring' | 'compile' | 'input' | 'host' | 'gap' | 'device' | 'mixed' | 'unwatched';

export interface Advice {
  readonly limit: Limit;
  /** True when the user can do something. */
  readonly act: boolean;
  /** Code in it is quoted in backticks. */
  readonly text: string;
}

/**
 * @param lastReason advice of the newest recompilation, as the agent gave it
 * @param mfu share of the device's peak, 0 to 1; null where unknown
 */
export function adviceFor(
  summary: StepSummary,
  lastReason: string | null,
  mfu: number | null = null
): Advice {
  const compileShare = shareOf(summary, 'compile');
  if (compileShare > COMPILE_LIMIT && summary.compiledSteps > 1) {
    return compiling(summary, compileShare, lastReason);
  }
  if (summary.count - summary.compiledSteps < STEPS_NEEDED) {
    return measuring(summary);
  }
  const steady = 1 - compileShare;
  const limit = mainLimit({
    input: shareOf(summary, 'input') / steady,
    host: shareOf(summary, 'host') / steady,
    gap: shareOf(summary, 'gap') / steady,
    device: shareOf(summary, 'device') / steady,
    deviceKnown: summary.deviceKnown
  });
  const found = sentence(limit.limit, Math.round(limit.share * 100));
  const advice = found.limit === 'device' ? withUse(found, mfu) : found;
  return compileShare > COMPILE_LIMIT ? { ...advice, text: `${onceText(summary)} ${advice.text}` } : advice;
}

/** A device that is the limit may still be badly used: then its own work is the place to improve. */
function withUse(advice: Advice, mfu: number | null): Advice {
  if (mfu === null || (mfu >= USE_LOW && mfu < USE_HIGH)) {
    return advice;
  }
  const percent = Math.round(mfu * 100);
  return mfu >= USE_HIGH
    ? { ...advice, text: trans.__('The device is the limit, and works at %1% of its peak.', percent) }
    : {
        limit: 'device',
        act: true,
        text: trans.__(
          'The device is the limit, but uses %1% of its peak. Larger batches, bfloat16, or fewer small operations use more of it.',
          percent
        )
      };
}

/** The split shows the one compilation too, so the sentence must mention it. */
function onceText(summary: StepSummary): string {
  const duration = durationText(summary.compileMs);
  return summary.onlyFirstCompiled
    ? trans.__('The first step compiled for %1, as expected.', duration)
    : trans.__('One step recompiled, for %1.', duration);
}

interface Shares {
  readonly input: number;
  readonly host: number;
  readonly gap: number;
  readonly device: number;
  readonly deviceKnown: boolean;
}

/** The largest of the spans above their limit: it has the largest potential. */
function mainLimit(shares: Shares): { limit: Limit; share: number } {
  const above = [
    { limit: 'input' as const, share: shares.input, from: INPUT_LIMIT },
    { limit: 'host' as const, share: shares.host, from: HOST_LIMIT },
    { limit: 'gap' as const, share: shares.gap, from: GAP_LIMIT }
  ]
    // Without a watched output, device time is hidden in host and gap, so neither can be judged.
    .filter(({ limit, share, from }) => share > from && (shares.deviceKnown || limit === 'input'))
    .sort((a, b) => b.share - a.share);
  const [worst] = above;
  if (worst) {
    return worst;
  }
  if (!shares.deviceKnown) {
    return { limit: 'unwatched', share: 0 };
  }
  return { limit: shares.device >= DEVICE_LIMIT ? 'device' : 'mixed', share: shares.device };
}

function sentence(limit: Limit, percent: number): Advice {
  const act = (text: string): Advice => ({ limit, act: true, text });
  const fine = (text: string): Advice => ({ limit, act: false, text });
  switch (limit) {
    case 'input':
      return act(
        trans.__(
          'The device waits for input %1% of the time. Prepare batches ahead, or keep the data on the device.',
          percent
        )
      );
    case 'host':
      return act(
        trans.__(
          'Python takes %1% of the step. Put the whole step into one jit, or do more work in each step.',
          percent
        )
      );
    case 'gap':
      return act(
        trans.__(
          'The device is idle %1% of the time, waiting for Python (for example print, float(loss), logging). Do that every few steps, not in each one.',
          percent
        )
      );
    case 'device':
      return fine(trans.__('The device is the limit. Nothing to fix in the input pipeline.'));
    case 'unwatched':
      return fine(
        trans.__(
          'Device time is unknown: no output of the step was watched, or the CPU ran its program in the call. Host and idle time include it. If the step uses the device, name an output: `tpulab.watch(loss)` in the loop, or `tpulab.steps(…, watch=lambda: loss)`.'
        )
      );
    default:
      return fine(trans.__('No single bottleneck (device busy %1%).', percent));
  }
}

function compiling(summary: StepSummary, share: number, lastReason: string | null): Advice {
  const fact = trans.__(
    '%1 of the last %2 steps recompiled, which took %3% of the time.',
    countText(summary.compiledSteps),
    countText(summary.count),
    Math.round(share * 100)
  );
  const remedy = lastReason ?? trans.__('Keep shapes, types and static arguments the same in every step.');
  return { limit: 'compile', act: true, text: `${fact} ${remedy}` };
}

function measuring(summary: StepSummary): Advice {
  const text = summary.onlyFirstCompiled
    ? trans.__(
        'The first step compiled for %1. The next ones show how fast it is.',
        durationText(summary.compileMs)
      )
    : trans.__('Measuring. After a few more steps, the limit is known.');
  return { limit: 'measuring', act: false, text };
}
