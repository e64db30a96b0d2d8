/** Notices about runs outside the user's view: alerts, such as a metric that became NaN, and how a run ended. */
import { ALERTS } from '@tpulab/protocol';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run, RunState } from '../events/run.js';
import { trans } from '../text/trans.js';

export interface RunNotice {
  readonly kind: 'error' | 'warning' | 'success';
  readonly text: string;
}

/** The relevant parts of the kernels and the page. */
export interface NoticesOptions {
  /** Unix milliseconds of this page's start: earlier events are in the panel, and not new. */
  readonly since: number;
  /** Whether this kernel's notebook is in the user's view. */
  readonly isWatched: (kernelId: string) => boolean;
}

/** Reports each event once: a metric in any case, an end only for a run outside the user's view. */
export class RunNotices {
  constructor(private readonly _options: NoticesOptions) {}

  /** New events since the last check of this kernel. */
  check(kernel: KernelTelemetry): RunNotice[] {
    return [...this._metrics(kernel), ...this._endings(kernel)];
  }

  private _metrics(kernel: KernelTelemetry): RunNotice[] {
    return kernel.advice.flatMap(({ kind, id, run, time, message }) => {
      const key = `${kernel.kernelId} ${id}`;
      if (!ALERTS.has(kind) || !this._isNews(kernel, time) || this._notified.has(key)) {
        return [];
      }
      this._notified.add(key);
      const name = kernel.runs.runs.find(one => one.id === run)?.name;
      const text = message.replaceAll('`', '');
      return [{ kind: 'warning' as const, text: name === undefined ? text : `${name}: ${text}` }];
    });
  }

  private _endings(kernel: KernelTelemetry): RunNotice[] {
    return kernel.runs.runs.flatMap(run => {
      const key = `${kernel.kernelId} ${run.id}`;
      const before = this._states.get(key);
      this._states.set(key, run.state);
      const ends = before === 'running' && run.state !== 'running' && this._isNews(kernel, run.lastMessageAt);
      return ends && isReported(run) && !this._options.isWatched(kernel.kernelId)
        ? [endingOf(run, run.state)]
        : [];
    });
  }

  private _isNews({ clockAheadMs }: KernelTelemetry, time: number): boolean {
    return time - clockAheadMs >= this._options.since;
  }

  private readonly _notified = new Set<string>();
  private readonly _states = new Map<string, RunState>();
}

/** A loop of seconds inside a cell is no reason to call the user back, unless it failed. */
const SHORT_MS = 30_000;

function isReported(run: Run): boolean {
  return run.state !== 'finished' || run.lastMessageAt - run.firstMessageAt >= SHORT_MS;
}

function endingOf(run: Run, state: RunState): RunNotice {
  const last = run.steps.length > 0 ? run.steps.index(run.steps.length - 1) + 1 : 0;
  const steps = trans._n('%1 step', '%1 steps', last);
  switch (state) {
    case 'failed':
      return { kind: 'error', text: trans.__('%1 failed after %2.', run.name, steps) };
    case 'interrupted':
      return { kind: 'error', text: trans.__('%1 was cut off after %2: its kernel ended.', run.name, steps) };
    default:
      return { kind: 'success', text: trans.__('%1 finished after %2.', run.name, steps) };
  }
}
