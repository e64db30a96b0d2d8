/**
 * What the agent inside a kernel reports: devices, runs, steps and compilations.
 *
 * The agent sends these as newline-delimited JSON to the keeper's telemetry socket, at 10 Hz at most.
 * The keeper numbers them and the gateway passes them to pages unchanged (`events.ts`).
 * Times are Unix milliseconds (fractions allowed), durations milliseconds, sizes bytes.
 */
import { type Static, Type } from '@sinclair/typebox';

const UnixMs = Type.Number({ minimum: 0, description: 'Unix time in milliseconds' });
const Ms = Type.Number({ minimum: 0, description: 'duration in milliseconds' });
const Bytes = Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
  description: 'bytes; null where the runtime does not say (XLA:CPU)'
});

/** Where in the user's code something happened. A field is null when it cannot be known (a script, an imported module). */
export const CodeLocation = Type.Object({
  cellId: Type.Union([Type.String(), Type.Null()], {
    description: '`metadata.cellId` of the execute_request'
  }),
  executionCount: Type.Union([Type.Integer(), Type.Null()], { description: 'the n of [n] beside the cell' }),
  line: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
    description: 'line in the cell or file, from 1'
  }),
  file: Type.Union([Type.String(), Type.Null()], { description: 'file name when the code is not in a cell' }),
  function: Type.Union([Type.String(), Type.Null()], { description: 'enclosing Python function' })
});
export type CodeLocation = Static<typeof CodeLocation>;

/** First message on a connection. */
export const HelloMessage = Type.Object({
  type: Type.Literal('hello'),
  v: Type.Literal(1),
  pid: Type.Integer(),
  agentVersion: Type.String(),
  pythonVersion: Type.String(),
  ipykernelVersion: Type.Union([Type.String(), Type.Null()]),
  time: UnixMs
});
export type HelloMessage = Static<typeof HelloMessage>;

export const RuntimeDevice = Type.Object({
  id: Type.Integer({ description: 'device id as the runtime numbers it' }),
  platform: Type.String({ description: '`cpu`, `tpu`, …' }),
  kind: Type.String({ description: '`device_kind`, for example `TPU v5 lite`' }),
  processIndex: Type.Integer({ minimum: 0 }),
  memoryUsedBytes: Bytes,
  memoryTotalBytes: Bytes,
  memoryPeakBytes: Bytes
});
export type RuntimeDevice = Static<typeof RuntimeDevice>;

/** The devices that the kernel's runtime sees. Sent once the runtime is initialised, then when a figure changes (1 Hz at most). */
export const DevicesMessage = Type.Object({
  type: Type.Literal('devices'),
  time: UnixMs,
  runtime: Type.String({ description: '`jax`, `torch_xla`, `torch_tpu`' }),
  runtimeVersion: Type.String(),
  platform: Type.String({ description: 'default backend of the runtime: `cpu`, `tpu`, …' }),
  devices: Type.Array(RuntimeDevice)
});
export type DevicesMessage = Static<typeof DevicesMessage>;

/** A training run: one loop over steps. */
export const RunMessage = Type.Object({
  type: Type.Literal('run'),
  time: UnixMs,
  run: Type.String({ description: 'id of the run, unique within the kernel' }),
  name: Type.String(),
  state: Type.Union([Type.Literal('running'), Type.Literal('finished'), Type.Literal('failed')]),
  totalSteps: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
  location: Type.Union([CodeLocation, Type.Null()])
});
export type RunMessage = Static<typeof RunMessage>;

/**
 * One step. The five spans are disjoint and add up to `wallMs` (within rounding); what cannot be
 * attributed is in `gapMs` when the device idled and in `hostMs` otherwise.
 */
export const StepSample = Type.Object({
  index: Type.Integer({ minimum: 0 }),
  startTime: UnixMs,
  wallMs: Ms,
  inputMs: Ms,
  hostMs: Ms,
  compileMs: Ms,
  deviceMs: Ms,
  gapMs: Ms,
  deviceKnown: Type.Boolean({
    description: 'false when no output was watched, so that device time is part of host and gap'
  }),
  metrics: Type.Optional(Type.Record(Type.String(), Type.Number()))
});
export type StepSample = Static<typeof StepSample>;

export const StepsMessage = Type.Object({
  type: Type.Literal('steps'),
  time: UnixMs,
  run: Type.String(),
  steps: Type.Array(StepSample),
  dropped: Type.Integer({
    minimum: 0,
    description: 'steps of this run left out since the last message, because the ring was full'
  })
});
export type StepsMessage = Static<typeof StepsMessage>;

export const CompileReason = Type.Object({
  verdict: Type.Union([
    Type.Literal('first'),
    Type.Literal('shape'),
    Type.Literal('dtype'),
    Type.Literal('tree'),
    Type.Literal('static'),
    Type.Literal('redefined'),
    Type.Literal('sharding'),
    Type.Literal('other')
  ]),
  argument: Type.Union([Type.String(), Type.Null()], {
    description: 'the argument that changed, as the function names it'
  }),
  before: Type.Union([Type.String(), Type.Null()], { description: 'for example `f32[16,512]`' }),
  after: Type.Union([Type.String(), Type.Null()]),
  advice: Type.Union([Type.String(), Type.Null()], { description: 'one sentence: what to do' })
});
export type CompileReason = Static<typeof CompileReason>;

/** A compilation: sent when it starts (`phase: 'started'`) and again, with the same `id`, when it ends. */
export const CompileMessage = Type.Object({
  type: Type.Literal('compile'),
  time: UnixMs,
  id: Type.Integer({ minimum: 0 }),
  phase: Type.Union([Type.Literal('started'), Type.Literal('finished'), Type.Literal('failed')]),
  function: Type.String({ description: 'name of the jitted function' }),
  variant: Type.Integer({
    minimum: 1,
    description: 'how many times this function has been compiled, this one included'
  }),
  traceMs: Ms,
  lowerMs: Ms,
  compileMs: Ms,
  cacheHit: Type.Boolean({ description: 'taken from the persistent compilation cache' }),
  eager: Type.Boolean({
    description: 'a small program made for one operation outside jit, for example `broadcast_in_dim`'
  }),
  location: Type.Union([CodeLocation, Type.Null()]),
  run: Type.Union([Type.String(), Type.Null()]),
  reason: CompileReason
});
export type CompileMessage = Static<typeof CompileMessage>;

/** Any message of the agent. */
export const TelemetryMessage = Type.Union([
  HelloMessage,
  DevicesMessage,
  RunMessage,
  StepsMessage,
  CompileMessage
]);
export type TelemetryMessage = Static<typeof TelemetryMessage>;
