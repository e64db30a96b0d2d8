/** The training runs of a kernel; the newest with their steps and metrics. */
import type {
  BandMessage,
  ControlMessage,
  FiguresMessage,
  HostsMessage,
  ThroughputMessage,
  RunMessage,
  StepsMessage
} from '@tpulab/protocol';
import { Run, MAX_STEPS } from './run.js';
import { StepRing } from './step-ring.js';

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

  applyRun(message: RunMessage, process: number): void {
    const { run, isNew } = this._of(message.run, process);
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

  applySteps(message: StepsMessage, process: number): void {
    const { run } = this._of(message.run, process);
    run.applySteps(message);
    // The last steps of a loop are reported when the device has completed them: by then the next run may have begun.
    const startedAt = message.steps.at(-1)?.startTime ?? 0;
    if (!this._isLive || startedAt >= (this._current?.begunAt ?? 0)) {
      this._show(run);
    }
  }

  applyFigures(message: FiguresMessage, process: number): void {
    this._apart(message.run, process).applyFigures(message);
  }

  applyBand(message: BandMessage, process: number): void {
    this._apart(message.run, process).applyBand(message);
  }

  applyThroughput(message: ThroughputMessage, process: number): void {
    this._apart(message.run, process).applyThroughput(message);
  }

  applyHosts(message: HostsMessage, process: number): void {
    const run = this._apart(message.run, process);
    run.hosts = message;
  }

  /** Shows this run regardless of times: for pages that receive only the newest run, chosen by the kernel. */
  show(id: string): void {
    this._current = this.runs.findLast(run => run.id === id) ?? this._current;
  }

  /** Answers are sent immediately, so a short run's answers arrive before its announcement. A refusal may name a run that never existed. */
  applyCommand(message: ControlMessage, process: number): void {
    const { run, phase } = message;
    const held = run === null ? undefined : this._runs.get(`${process}:${run}`);
    const isOfRun = phase === 'accepted' || phase === 'applied';
    (held ?? (run !== null && isOfRun ? this._apart(run, process) : undefined))?.applyCommand(message);
  }

  interrupt(): void {
    for (const run of this._runs.values()) {
      if (run.state === 'running') {
        run.state = 'interrupted';
      }
    }
  }

  /** Drops the ended runs, and the steps of the continuing ones. */
  clear(): void {
    for (const [key, run] of this._runs) {
      if (run.state === 'running') {
        run.steps = new StepRing(MAX_STEPS);
        run.dropped = 0;
      } else {
        this._runs.delete(key);
      }
    }
    this._current = this._current && this._runs.has(this._current.key) ? this._current : null;
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
  private _apart(id: string, process: number): Run {
    const { run } = this._of(id, process);
    if (!this._isLive) {
      this._show(run);
    }
    return run;
  }

  private _of(id: string, process: number): { readonly run: Run; readonly isNew: boolean } {
    const key = `${process}:${id}`;
    const known = this._runs.get(key);
    if (known) {
      return { run: known, isNew: false };
    }
    const run = new Run(key, id);
    this._runs.set(key, run);
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
      this._runs.delete(oldest.key);
    }
  }

  private readonly _runs = new Map<string, Run>();
  private _current: Run | null = null;
}
