/** The training runs of a kernel with their newest steps. */
import type { CodeLocation, RunMessage, StepsMessage } from '@tpulab/protocol';
import { StepRing } from './step-ring.js';

/** `interrupted`: the kernel ended before the run said that it had. */
export type RunState = 'running' | 'finished' | 'failed' | 'interrupted';

/** Steps held for a run: more than any setting can show. */
export const STEPS_KEPT = 512;
/** Runs held for a kernel, the newest. */
export const RUNS_KEPT = 8;

export class Run {
  constructor(
    readonly key: string,
    public name: string
  ) {}

  state: RunState = 'running';
  totalSteps: number | null = null;
  location: CodeLocation | null = null;
  /** Replaced, not emptied, when the history is cleared. */
  steps = new StepRing(STEPS_KEPT);
  /** Steps that the agent left out because its ring was full. */
  dropped = 0;
  /** Metrics of the newest step that had some. */
  metrics: Readonly<Record<string, number>> = {};
  /** Unix milliseconds, kernel's clock, of the newest message about this run. */
  lastMessageAt = 0;
}

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
    const run = this._runOf(message.run, process);
    run.name = message.name;
    run.state = message.state;
    run.totalSteps = message.totalSteps;
    run.location = message.location ?? run.location;
    run.lastMessageAt = message.time;
    this._current = run;
  }

  applySteps(message: StepsMessage, process: number): void {
    const run = this._runOf(message.run, process);
    for (const step of message.steps) {
      run.steps.push(step);
      if (step.metrics) {
        run.metrics = step.metrics;
      }
    }
    run.dropped += message.dropped;
    run.lastMessageAt = message.time;
    this._current = run;
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

  private _runOf(id: string, process: number): Run {
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
    return run;
  }

  private readonly _runs = new Map<string, Run>();
  private _current: Run | null = null;
}
