/** The page's data about one training run: its steps, metrics, controls, requests and their results. */
import type {
  BandMessage,
  CodeLocation,
  ControlMessage,
  FiguresMessage,
  HostsMessage,
  MediaMessage,
  ThroughputMessage,
  RunControl,
  RunMessage,
  StepsMessage
} from '@tpulab/protocol';
import { addMedium, MAX_METRICS } from '@tpulab/protocol';
import { MetricSeries } from './metric-series.js';
import { StepRing } from './step-ring.js';

/** `interrupted`: the kernel ended before the run reported its end. */
export type RunState = 'running' | 'finished' | 'failed' | 'interrupted';

/** Maximum number of steps per run: the widest range of the timeline. */
export const MAX_STEPS = 2_048;
const MAX_BANDS = 256;
export const MAX_COMMANDS = 256;

/** Numbers logged after their step, media, evaluations and the like, rates, and the hosts of a slice. */
export type RunDetail = FiguresMessage | MediaMessage | BandMessage | ThroughputMessage | HostsMessage;

export class Run {
  constructor(
    /** The agent's id; unique within its kernel, over restarts too. */
    readonly id: string
  ) {
    this.name = id;
  }

  name: string;
  state: RunState = 'running';
  totalSteps: number | null = null;
  /** The total covers the loops so far; there were several. */
  isOpenEnded = false;
  /** It evaluates or saves at the moment, for seconds. */
  isInBand = false;
  location: CodeLocation | null = null;
  /** Null for a loop that cannot be steered. */
  control: RunControl | null = null;
  throughput: ThroughputMessage | null = null;
  /** In a slice, its newest steps by host; null with a single host. */
  hosts: HostsMessage | null = null;
  readonly steps = new StepRing(MAX_STEPS);
  /** Number of steps that the agent omitted because its ring was full. */
  dropped = 0;
  /** By name, in the order of their first point. */
  readonly series = new Map<string, MetricSeries>();
  /** Pictures, sound and text without their data; oldest first. */
  readonly media: MediaMessage[] = [];
  /** Checkpoints, evaluations and other work besides the steps; oldest first. */
  readonly bands: BandMessage[] = [];
  /** The requests, each with its latest status; oldest first. */
  readonly commands: ControlMessage[] = [];
  /** Its start, or last continuation after an end; 0 when unknown. Unix milliseconds, kernel's clock, like the next two. */
  begunAt = 0;
  firstMessageAt = 0;
  lastMessageAt = 0;
  /** When this page last received a message of the run, by the page's clock: shows how long the run has been silent. */
  receivedAt = 0;
  /** Increases with each change of metrics, bands or commands. */
  version = 0;

  /** Newest value of each metric. */
  get metrics(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.series].map(([name, { last }]) => [name, last]));
  }

  applyRun(message: RunMessage): void {
    this.name = message.name;
    this.state = message.state;
    this.totalSteps = message.totalSteps;
    this.isOpenEnded = message.openEnded === true;
    this.isInBand = message.inBand === true;
    this.location = message.location ?? this.location;
    this.control = message.control ?? this.control;
    this._note(message.time);
  }

  applySteps(message: StepsMessage): void {
    for (const step of message.steps) {
      this.steps.push(step);
      this._addMetrics(step.index, step, step.startTime);
    }
    this.dropped += message.dropped;
    this._note(message.time);
  }

  /** Points of a metric arrive in the order of their steps. */
  addMetric(name: string, step: number, value: number, time?: number): void {
    this._seriesOf(name)?.push(step, value, time);
  }

  apply(message: RunDetail): void {
    switch (message.type) {
      case 'figures':
        this._addMetrics(message.step, message, message.time);
        break;
      case 'media':
        addMedium(this.media, message);
        break;
      case 'band':
        this.bands.push(message);
        this.bands.splice(0, this.bands.length - MAX_BANDS);
        break;
      case 'pace':
        this.throughput = message;
        break;
      case 'hosts':
        // Of other hosts too: it does not show that this one continues.
        this.hosts = message;
        return;
    }
    this._note(message.time);
  }

  applyCommand(message: ControlMessage): void {
    const at = this.commands.findIndex(({ id }) => id === message.id);
    if (at >= 0) {
      this.commands[at] = message;
    } else {
      this.commands.push(message);
      if (this.commands.length > MAX_COMMANDS) {
        this.commands.shift();
      }
    }
    this._note(message.time);
  }

  private _addMetrics(
    step: number,
    { metrics, nonFinite }: Pick<FiguresMessage, 'nonFinite'> & Partial<Pick<FiguresMessage, 'metrics'>>,
    time: number
  ): void {
    for (const [name, value] of Object.entries({ ...metrics, ...nonFinite })) {
      this.addMetric(name, step, Number(value), time);
    }
  }

  private _seriesOf(name: string): MetricSeries | undefined {
    let series = this.series.get(name);
    if (!series && this.series.size < MAX_METRICS) {
      series = new MetricSeries();
      this.series.set(name, series);
    }
    return series;
  }

  private _note(time: number): void {
    this.firstMessageAt ||= time;
    this.lastMessageAt = time;
    this.receivedAt = Date.now();
    this.version += 1;
  }
}
