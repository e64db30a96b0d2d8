/** Requests a checkpoint from every training of some kernels, as before a machine is preempted, and waits for the results. */
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run.js';
import { ControlModel, type Send } from './model.js';
import { buttonsOf } from '../events/run-state.js';

export interface ICheckpointTarget {
  readonly kernel: KernelTelemetry;
  readonly send: Send;
}

export interface ICheckpoints {
  /** Names of the runs that have taken a checkpoint. */
  readonly saved: readonly string[];
  readonly failed: readonly { readonly run: string; readonly text: string }[];
}

/** The runs that take checkpoints on request. */
function checkpointable({ runs }: KernelTelemetry): Run[] {
  return runs.runs.filter(run =>
    buttonsOf(run).some(({ action, enabled }) => action === 'checkpoint' && enabled)
  );
}

/**
 * Never rejects. Resolves when each run has taken its checkpoint, or has reported why not. An ended kernel sends no more messages, and
 * an unreachable one does not even report its end: `signal` ends the wait.
 */
export async function saveCheckpoints(
  targets: readonly ICheckpointTarget[],
  signal: AbortSignal
): Promise<ICheckpoints> {
  const requested = targets.flatMap(target =>
    checkpointable(target.kernel).map(run => requestOne(target, run, signal))
  );
  const answers = await Promise.all(requested);
  return {
    saved: answers.flatMap(({ run, text }) => (text === null ? [run] : [])),
    failed: answers.flatMap(({ run, text }) => (text === null ? [] : [{ run, text }]))
  };
}

async function requestOne(
  { kernel, send }: ICheckpointTarget,
  run: Run,
  signal: AbortSignal
): Promise<{ run: string; text: string | null }> {
  const model = new ControlModel(kernel, send);
  const settled = new Promise<void>(resolve => {
    model.changed.connect(() => {
      if (model.pending.length === 0) {
        resolve();
      }
    });
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  void model.request({ action: 'checkpoint', run: run.id });
  await settled;
  const text = model.failed[0]?.text ?? failureReason(model, kernel);
  model.dispose();
  return { run: run.name, text };
}

/** Null when the checkpoint was taken. */
function failureReason({ pending }: ControlModel, { isDead }: KernelTelemetry): string | null {
  if (isDead) {
    return 'The kernel has ended.';
  }
  return pending.length > 0 ? 'It has not been heard of.' : null;
}
