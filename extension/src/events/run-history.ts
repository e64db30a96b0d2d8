/** The training runs of a kernel, the newest with their steps and metrics. */
import type { BandMessage, ControlMessage, PaceMessage, RunMessage, StepsMessage } from '@tpulab/protocol';
import { Run, STEPS_KEPT } from './run.js';
import { StepRing } from './step-ring.js';

/** Runs held for a kernel, the newest. */
export const RUNS_KEPT = 8;

export class RunHistory {
  /** The run that sent something last; null before the first. */
  get current(): Run | null {
    return this._current;
  }

  /** In order of their first message. */
  get runs(): readonly Run[] {
    return [...this._runs.values()];
  }

  applyRun(message: RunMessage, process: number): void {
    this._of(message.run, process).applyRun(message);
  }

  applySteps(message: StepsMessage, process: number): void {
    this._of(message.run, process).applySteps(message);
  }

  applyBand(message: BandMessage, process: number): void {
    this._of(message.run, process).applyBand(message);
  }

  applyPace(message: PaceMessage, process: number): void {
    this._of(message.run, process).applyPace(message);
  }

  /** A word on a run that is not held any more, or on none, is of no use here. */
  applyCommand(message: ControlMessage, process: number): void {
    if (message.run !== null) {
      this._runs.get(`${process}:${message.run}`)?.applyCommand(message);
    }
  }

  interrupt(): void {
    for (const run of this._runs.values()) {
      if (run.state === 'running') {
        run.state = 'interrupted';
      }
    }
  }

  /** Forgets the runs that ended and the steps of those that go on. */
  clear(): void {
    for (const [key, run] of this._runs) {
      if (run.state === 'running') {
        run.steps = new StepRing(STEPS_KEPT);
        run.dropped = 0;
      } else {
        this._runs.delete(key);
      }
    }
    this._current = this._current && this._runs.has(this._current.key) ? this._current : null;
  }

  /** The run of a message; what sends is what people want to see. */
  private _of(id: string, process: number): Run {
    const key = `${process}:${id}`;
    let run = this._runs.get(key);
    if (!run) {
      run = new Run(key, id);
      this._runs.set(key, run);
      const oldest = this._runs.keys().next();
      if (this._runs.size > RUNS_KEPT && !oldest.done) {
        this._runs.delete(oldest.value);
      }
    }
    this._current = run;
    return run;
  }

  private readonly _runs = new Map<string, Run>();
  private _current: Run | null = null;
}
