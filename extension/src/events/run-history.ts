/** The training runs of a kernel; the newest with their steps and metrics. */
import type { ControlMessage, RunMessage, StepsMessage } from '@tpulab/protocol';
import { MAX_COMMANDS, Run, type RunDetail } from './run.js';

/** Maximum number of runs per kernel, the newest. */
export const MAX_RUNS = 8;

export class RunHistory {
  /**
   * The run to show; null before the first. A new run is shown immediately. Another live run replaces it
   * with a step that began later, but a monitored loop never replaces a live run that can be steered.
   */
  get current(): Run | null {
    return this._current;
  }

  /** In order of their first message. */
  get runs(): readonly Run[] {
    return [...this._runs.values()];
  }

  applyRun(message: RunMessage): void {
    const { run, isNew } = this._of(message.run);
    const begins = message.state === 'running' && (isNew || run.state !== 'running');
    run.applyRun(message);
    if (begins) {
      run.begunAt = message.time;
      this._show(run);
    } else if (isNew && !this._isLive) {
      // Its beginning was not received here.
      this._current = run;
    }
  }

  applySteps(message: StepsMessage): void {
    const { run } = this._of(message.run);
    run.applySteps(message);
    // The last steps of a loop are reported when the device has completed them: by then the next run may have begun.
    const startedAt = message.steps.at(-1)?.startTime ?? 0;
    if (!this._isLive || startedAt >= (this._current?.begunAt ?? 0)) {
      this._show(run);
    }
  }

  /** What belongs to a run and has no effect on which run is shown. */
  apply(message: RunDetail): void {
    this._addArchived(message.run).apply(message);
  }

  /** Shows this run regardless of times: for pages that receive only the newest run, chosen by the kernel. */
  show(id: string): void {
    this._current = this._runs.get(id) ?? this._current;
  }

  /** Answers are sent immediately, so a short run's answers arrive before its announcement. A refusal may name a run that never existed. */
  applyCommand(message: ControlMessage): void {
    const run = this._runs.get(message.run ?? '');
    if (run) {
      run.applyCommand(message);
    } else if (message.run !== null) {
      this._early = [...this._early, message].slice(-MAX_COMMANDS);
    }
  }

  interrupt(): void {
    for (const run of this._runs.values()) {
      if (run.state === 'running') {
        run.state = 'interrupted';
      }
    }
  }

  private get _isLive(): boolean {
    return this._current?.state === 'running';
  }

  private _show(run: Run): void {
    const keeps = this._isLive && this._current?.control !== null && run.control === null;
    if (!keeps && run.state === 'running') {
      this._current = run;
    }
  }

  /** The run of a message without a time: it never replaces a live run. */
  private _addArchived(id: string): Run {
    const { run } = this._of(id);
    if (!this._isLive) {
      this._show(run);
    }
    return run;
  }

  private _of(id: string): { readonly run: Run; readonly isNew: boolean } {
    const known = this._runs.get(id);
    if (known) {
      return { run: known, isNew: false };
    }
    const run = new Run(id);
    this._runs.set(id, run);
    for (const message of this._early) {
      if (message.run === id) {
        run.applyCommand(message);
      }
    }
    this._early = this._early.filter(message => message.run !== id);
    if (this._runs.size > MAX_RUNS) {
      this._forgetOne();
    }
    return { run, isNew: true };
  }

  /** The oldest ended run; the shown run and the newest are retained. */
  private _forgetOne(): void {
    const others = this.runs.slice(0, -1).filter(run => run !== this._current);
    const oldest = others.find(({ state }) => state !== 'running') ?? others[0];
    if (oldest) {
      this._runs.delete(oldest.id);
    }
  }

  /** By id: a restarted kernel's runs have other ids. */
  private readonly _runs = new Map<string, Run>();
  /** Answers to runs that have not been announced. */
  private _early: readonly ControlMessage[] = [];
  private _current: Run | null = null;
}
