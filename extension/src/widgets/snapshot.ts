/** The state that a widget's kernel sends over its comm, twice a second, where there is no bridge: always the newest whole state. */
import type {
  ControlMessage,
  DevicesMessage,
  ThroughputMessage,
  RunMessage,
  StepSample,
  TelemetryMessage
} from '@tpulab/protocol';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';

/** As `kernel-agent/src/tpulab/widgets/snapshot.py` makes it. */
export interface Snapshot {
  readonly v: 1;
  readonly time: number;
  /** At the bridge; null for a kernel that is not on one. */
  readonly kernelId: string | null;
  readonly devices: DevicesMessage | null;
  readonly run: RunMessage | null;
  readonly throughput: ThroughputMessage | null;
  /** Rows of the newest steps: index, start, wall, input, host, compile, device, gap, known (0 or 1). */
  readonly steps: readonly (readonly number[])[];
  /** By name: steps and values, thinned; null for NaN and infinities. */
  readonly metrics: Readonly<Record<string, readonly [readonly number[], readonly (number | null)[]]>>;
  readonly commands: readonly ControlMessage[];
}

/** Null for an invalid snapshot: a widget that was just created, or a widget of another version. */
export function asSnapshot(value: unknown): Snapshot | null {
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  const { v, steps, metrics, commands } = value as Partial<Snapshot>;
  const isValid = v === 1 && Array.isArray(steps) && typeof metrics === 'object' && Array.isArray(commands);
  return isValid ? (value as Snapshot) : null;
}

/** Loads snapshots into the same model as the bridge's telemetry. Data already present is not added again. */
export class SnapshotReader {
  constructor(readonly kernel: KernelTelemetry) {}

  read(snapshot: Snapshot): void {
    const { devices, run, throughput, commands } = snapshot;
    const messages: TelemetryMessage[] = [];
    if (devices) {
      messages.push(devices);
    }
    if (run) {
      messages.push(run);
      const steps = this._newSteps(snapshot, run.run);
      if (steps.length > 0) {
        messages.push({ type: 'steps', time: snapshot.time, run: run.run, steps, dropped: 0 });
      }
    }
    if (throughput) {
      messages.push(throughput);
    }
    messages.push(...commands);
    this._apply(messages, snapshot.time);
    if (run) {
      // The shown run was chosen in the kernel, which has all runs; the previous run's end never arrives here.
      this.kernel.runs.show(run.run);
    }
    this._readMetrics(snapshot);
  }

  private _apply(messages: readonly TelemetryMessage[], time: number): void {
    for (const data of messages) {
      this._seq += 1;
      this.kernel.applyTelemetry(
        { topic: 'runs', kernelId: this.kernel.kernelId, seq: this._seq, data },
        time
      );
    }
  }

  private _newSteps({ steps }: Snapshot, run: string): StepSample[] {
    if (run !== this._run) {
      this._run = run;
      this._lastIndex = -1;
      this._metrics.clear();
    }
    return steps.flatMap(([index = -1, ...rest]) => {
      if (index <= this._lastIndex) {
        return [];
      }
      this._lastIndex = index;
      const [
        startTime = 0,
        wallMs = 0,
        inputMs = 0,
        hostMs = 0,
        compileMs = 0,
        deviceMs = 0,
        gapMs = 0,
        known
      ] = rest;
      return [
        {
          ...{ index, startTime, wallMs, inputMs, hostMs, compileMs, deviceMs, gapMs },
          deviceKnown: known === 1
        }
      ];
    });
  }

  /** Separate from the steps: a long run has more points than the transmitted rows. */
  private _readMetrics({ metrics, run }: Snapshot): void {
    const model = this.kernel.runs.runs.find(({ id }) => id === run?.run);
    for (const [name, [indices, values]] of Object.entries(metrics)) {
      const last = this._metrics.get(name) ?? -1;
      indices.forEach((index, at) => {
        const value = values[at];
        if (index > last && value !== undefined) {
          model?.addMetric(name, index, value ?? Number.NaN);
        }
      });
      this._metrics.set(name, Math.max(last, indices.at(-1) ?? -1));
    }
  }

  private readonly _metrics = new Map<string, number>();
  private _seq = 0;
  private _run = '';
  private _lastIndex = -1;
}
