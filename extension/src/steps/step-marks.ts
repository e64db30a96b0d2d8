/** Events at steps besides computing: checkpoints and other work, and commands that were applied. */
import { type BandKind, type ControlMessage, durationText } from '@tpulab/protocol';
import type { Run } from '../events/run.js';
import type { StepRing } from '../events/step-ring.js';
import { valueText } from '../text/value.js';
import { trans } from '../text/trans.js';

export interface StepMark {
  /** Number of the step in its run. */
  readonly index: number;
  readonly kind: BandKind | 'command';
  readonly text: string;
}

/** Commands with their own band are marked by it. */
const LEAVE_BANDS: readonly ControlMessage['action'][] = ['checkpoint', 'evaluate', 'sample', 'resume'];

/** The marks of a run by step, the oldest first. */
export function marksOf(run: Run): StepMark[] {
  // A requested action is named by its command.
  const others = run.bands.filter(({ kind }) => kind !== 'call');
  const bands = others.map(({ step, kind, durationMs, failed }): StepMark => {
    const name = bandName(kind);
    const text = failed ? trans.__('%1 failed', name) : `${name} ${durationText(durationMs)}`;
    return { index: step, kind, text };
  });
  const commands = run.commands.flatMap((command): StepMark[] =>
    command.phase === 'applied' && command.step !== null && !LEAVE_BANDS.includes(command.action)
      ? [{ index: command.step, kind: 'command', text: commandText(command) }]
      : []
  );
  return [...bands, ...commands].sort((a, b) => a.index - b.index);
}

export function bandName(kind: BandKind | ControlMessage['action']): string {
  switch (kind) {
    case 'checkpoint':
      return trans.__('checkpoint');
    case 'evaluate':
      return trans.__('evaluation');
    case 'sample':
      return trans.__('sample');
    case 'call':
      return trans.__('action');
    case 'transfer':
      return trans.__('transfer');
    case 'pause':
      return trans.__('pause');
    case 'resume':
      return trans.__('resume');
    case 'stop':
      return trans.__('stop');
    case 'set':
      return trans.__('set');
    case 'branch':
      return trans.__('branch');
    case 'free':
      return trans.__('free memory');
    case 'memory':
      return trans.__('memory by array');
    case 'profile':
      return trans.__('trace');
  }
}

/** `learning_rate 2.0e-4 → 1.0e-4`, `stop`, …: the request, without its result. */
export function commandText({ action, name, value, before }: ControlMessage): string {
  if (action === 'call') return name ?? bandName(action);
  if (action !== 'set') return bandName(action);
  const now = value === null ? '' : valueText(value);
  return before === null
    ? trans.__('%1 set to %2', name ?? '', now)
    : trans.__('%1 %2 → %3', name ?? '', valueText(before), now);
}

/** A step's position in the ring: the first step of this number or a later one; null when it is not stored. */
export function positionOf(steps: StepRing, index: number): number | null {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps.index(middle) < index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const isHeld = low < steps.length && (low > 0 || steps.index(0) <= index);
  return isHeld ? low : null;
}
