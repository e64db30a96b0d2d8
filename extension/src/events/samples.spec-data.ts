/** Telemetry as an agent sends it, for specs. Omitted spans have the values of a quick ordinary step. */
import type {
  CompileMessage,
  ControlMessage,
  DeviceFigures,
  DevicesMessage,
  HelloMessage,
  KernelEvent,
  MachineEvent,
  MachineSample,
  RunControl,
  RunMessage,
  StepSample,
  StepsMessage,
  TelemetryEvent,
  TelemetryMessage
} from '@tpulab/protocol';

export const T0 = 1_790_000_000_000;

/** Controls of a run that can be steered. */
export const control: RunControl = {
  state: 'starting',
  actions: ['pause', 'resume', 'stop'],
  hyperparameters: [],
  config: {},
  log: null
};

export function step(index: number, fields: Partial<StepSample> = {}): StepSample {
  const spans = { inputMs: 2, hostMs: 3, compileMs: 0, deviceMs: 40, gapMs: 5, ...fields };
  const wallMs = spans.inputMs + spans.hostMs + spans.compileMs + spans.deviceMs + spans.gapMs;
  return { index, startTime: T0 + index * 50, wallMs, deviceKnown: true, ...spans, ...fields };
}

export function steps(
  first: number,
  count: number,
  fields: Partial<StepSample> = {},
  run = 'r1'
): StepsMessage {
  const list = Array.from({ length: count }, (_, at) => step(first + at, fields));
  return { type: 'steps', time: T0 + (first + count) * 50, run, steps: list, dropped: 0 };
}

export function run(fields: Partial<RunMessage> = {}): RunMessage {
  return {
    type: 'run',
    time: T0,
    run: 'r1',
    name: 'train',
    state: 'running',
    totalSteps: null,
    location: null,
    ...fields
  };
}

export function answer(id: string, fields: Partial<ControlMessage> = {}): ControlMessage {
  return {
    ...{ type: 'control', time: T0, id, run: 'r1', action: 'checkpoint', phase: 'applied', step: 10 },
    ...{ name: null, value: null, before: null, origin: 'code', durationMs: 1, reason: null },
    ...fields
  };
}

export function hello(fields: Partial<HelloMessage> = {}): HelloMessage {
  return {
    type: 'hello',
    v: 1,
    pid: 100,
    agentVersion: '0.1.0',
    pythonVersion: '3.11.2',
    ipykernelVersion: '7.4.0',
    time: T0,
    ...fields
  };
}

export function devices(count = 8, fields: Partial<DevicesMessage> = {}): DevicesMessage {
  const list = Array.from({ length: count }, (_, id) => ({
    id,
    platform: 'cpu',
    kind: 'cpu',
    processIndex: 0,
    memoryUsedBytes: null,
    memoryTotalBytes: null,
    memoryPeakBytes: null
  }));
  return {
    type: 'devices',
    time: T0,
    runtime: 'jax',
    runtimeVersion: '0.10.2',
    platform: 'cpu',
    devices: list,
    ...fields
  };
}

export function compile(id: number, fields: Partial<CompileMessage> = {}): CompileMessage {
  return {
    type: 'compile',
    time: T0 + id * 1_000,
    id,
    phase: 'finished',
    function: 'train_step',
    variant: 1,
    traceMs: 20,
    lowerMs: 30,
    compileMs: 950,
    cacheHit: false,
    eager: false,
    location: { cellId: 'cell-7', executionCount: 7, line: 12, file: null, function: 'fit' },
    run: null,
    reason: { verdict: 'first', argument: null, before: null, after: null, advice: null },
    ...fields
  };
}

export function kernelState(
  kernelId: string,
  executionState: string,
  fields: Partial<KernelEvent> = {}
): KernelEvent {
  return {
    topic: 'kernels',
    kernelId,
    name: 'tpulab-jax',
    executionState,
    connections: 1,
    reason: null,
    removed: false,
    ...fields
  };
}

/** A sample of a machine; without `devices` a machine without chips. */
export function machineSample(machineSeq: number, fields: Partial<MachineSample> = {}): MachineEvent {
  const machine: MachineSample = {
    time: T0 + machineSeq * 500,
    host: {
      cpuPercent: 22,
      cores: 8,
      load1: 1,
      memoryUsedBytes: 4 * 1_024 ** 3,
      memoryTotalBytes: 16 * 1_024 ** 3,
      diskReadBytesPerS: null,
      diskWrittenBytesPerS: null,
      networkReceivedBytesPerS: null,
      networkSentBytesPerS: null
    },
    devices: [],
    metrics: { state: (fields.devices?.length ?? 0) > 0 ? 'serving' : 'no-chips', detail: null },
    ...fields
  };
  return { topic: 'devices', gatewayId: 'g', machineSeq, machine };
}

/** Figures of one device, as a v5e in use reports them. */
export function deviceFigures(ordinal: number, fields: Partial<DeviceFigures> = {}): DeviceFigures {
  return {
    ordinal,
    chip: ordinal,
    hbmUsedBytes: 11 * 1_024 ** 3,
    hbmTotalBytes: 16 * 1_024 ** 3,
    dutyCyclePercent: 87,
    hbmBandwidthPercent: 41,
    idleS: 0,
    hloQueueSize: 1,
    ...fields
  };
}

const TOPIC_OF = {
  hello: 'devices',
  devices: 'devices',
  run: 'runs',
  steps: 'steps',
  figures: 'steps',
  media: 'steps',
  band: 'steps',
  pace: 'steps',
  hosts: 'steps',
  control: 'runs',
  compile: 'compile',
  advice: 'runs',
  'memory-error': 'runs',
  memory: 'runs',
  profile: 'runs'
} as const;

export function telemetry(kernelId: string, seq: number, data: TelemetryMessage): TelemetryEvent {
  return { topic: TOPIC_OF[data.type], kernelId, seq, data };
}
