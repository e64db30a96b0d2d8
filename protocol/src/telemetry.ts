/**
 * The reports of the agent inside a kernel: devices, runs, steps and compilations.
 *
 * The agent sends these as newline-delimited JSON to the keeper's telemetry socket, at 10 Hz at most.
 * The keeper numbers them and the gateway passes them to pages unchanged (`events.ts`).
 * Times are Unix milliseconds (fractions allowed), durations milliseconds, sizes bytes.
 */
import { type Static, Type } from '@sinclair/typebox';
import { ControlMessage, RunControl } from './control.js';

const UnixMs = Type.Number({ minimum: 0, description: 'Unix time in milliseconds' });
const Ms = Type.Number({ minimum: 0, description: 'duration in milliseconds' });
const Bytes = Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
  description: 'bytes; null where the runtime does not say (XLA:CPU)'
});

/** A place in the user's code. A field is null when it cannot be determined (a script, an imported module). */
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

/** Whether the packages in the agent's environment have a hook that the agent needs. */
export const Capability = Type.Object({
  name: Type.Union([
    Type.Literal('compilations'),
    Type.Literal('device-time'),
    Type.Literal('waiting-lines'),
    Type.Literal('profiler'),
    Type.Literal('torch-xla'),
    Type.Literal('subshells'),
    Type.Literal('live-widgets')
  ]),
  available: Type.Boolean(),
  reason: Type.Union([Type.String(), Type.Null()], { description: 'why it is not; null when it is' })
});
export type Capability = Static<typeof Capability>;

/** Sent first on each connection, and again when a package was imported whose hooks the agent has searched. */
export const HelloMessage = Type.Object({
  type: Type.Literal('hello'),
  v: Type.Literal(1),
  pid: Type.Integer(),
  agentVersion: Type.String(),
  pythonVersion: Type.String(),
  ipykernelVersion: Type.Union([Type.String(), Type.Null()]),
  capabilities: Type.Optional(
    Type.Array(Capability, {
      description: 'of the packages that are loaded; what is not named is not known, as of an older agent'
    })
  ),
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

/** The devices that the kernel's runtime sees. Sent once the runtime is initialised, then when a value changes (1 Hz at most). */
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
  openEnded: Type.Optional(
    Type.Boolean({ description: 'one of several loops is running: the total counts the loops so far' })
  ),
  inBand: Type.Optional(
    Type.Boolean({ description: 'an evaluation or the like has been running for more than two seconds' })
  ),
  location: Type.Union([CodeLocation, Type.Null()]),
  control: Type.Optional(RunControl)
});
export type RunMessage = Static<typeof RunMessage>;

/**
 * Work beside the steps that users want to see by name. If it happens inside a step, it overlaps the step's five spans; if
 * a command requested it, it is between two steps.
 */
export const BandKind = Type.Union([
  Type.Literal('checkpoint'),
  Type.Literal('evaluate'),
  Type.Literal('sample'),
  Type.Literal('call'),
  Type.Literal('transfer'),
  Type.Literal('pause')
]);
export type BandKind = Static<typeof BandKind>;

/** One period of such work, reported when it is over. */
export const BandMessage = Type.Object({
  type: Type.Literal('band'),
  time: UnixMs,
  run: Type.String(),
  kind: BandKind,
  startTime: UnixMs,
  durationMs: Ms,
  step: Type.Integer({ minimum: 0, description: 'index of the step that it is in, or that comes next' }),
  inStep: Type.Boolean({ description: 'false: between two steps, so that no span contains it' }),
  failed: Type.Boolean()
});
export type BandMessage = Static<typeof BandMessage>;

/**
 * One step. The five spans are disjoint and add up to `wallMs` (within rounding); time that cannot be
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
  metrics: Type.Optional(Type.Record(Type.String(), Type.Number())),
  nonFinite: Type.Optional(
    Type.Record(
      Type.String(),
      Type.Union([Type.Literal('NaN'), Type.Literal('Infinity'), Type.Literal('-Infinity')]),
      { description: 'metrics that are no finite number, which JSON does not have' }
    )
  ),
  bands: Type.Optional(
    Type.Record(Type.String(), Ms, {
      description: 'milliseconds of each `BandKind` inside the step; they overlap the spans'
    })
  )
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

/** Values that were logged after the end of their step: by an evaluation between two steps, or after the last one. */
export const FiguresMessage = Type.Object({
  type: Type.Literal('figures'),
  time: UnixMs,
  run: Type.String(),
  step: Type.Integer({ minimum: 0, description: 'index of the step that they count for' }),
  metrics: Type.Record(Type.String(), Type.Number()),
  nonFinite: Type.Optional(
    Type.Record(
      Type.String(),
      Type.Union([Type.Literal('NaN'), Type.Literal('Infinity'), Type.Literal('-Infinity')])
    )
  )
});
export type FiguresMessage = Static<typeof FiguresMessage>;

/** A picture (`image/png`), sound (`audio/wav`) or text (`text/plain`) that a run has logged. */
export const MediaMessage = Type.Object({
  type: Type.Literal('media'),
  time: UnixMs,
  run: Type.String(),
  id: Type.Integer({ minimum: 0, description: 'unique within the kernel process' }),
  step: Type.Integer({ minimum: 0, description: 'index of the step that it counts for' }),
  name: Type.String({ maxLength: 120 }),
  mime: Type.String({ pattern: '^(image/png|audio/wav|text/plain)$' }),
  data: Type.Optional(
    Type.String({
      maxLength: 1_000_000,
      description: 'the text, otherwise base64; absent in events: `GET /bridge/v1/runs/:key/media/:id` has it'
    })
  )
});
export type MediaMessage = Static<typeof MediaMessage>;

const HostSpan = Type.Number({ minimum: 0, description: 'milliseconds, mean of the compared steps' });

/** For a slice: the spans of a run's newest steps on each host. At most once per second. */
export const HostsMessage = Type.Object({
  type: Type.Literal('hosts'),
  time: UnixMs,
  run: Type.String({ description: 'id of the run, as process 0 names it' }),
  step: Type.Integer({ minimum: 0, description: 'the newest step that all hosts have told of' }),
  compared: Type.Integer({ minimum: 1, description: 'steps that the means are of' }),
  hosts: Type.Array(
    Type.Object({
      host: Type.Integer({ minimum: 0, description: 'process index' }),
      name: Type.String({ description: 'for people: "host 2 (me@10.0.0.5)"' }),
      wallMs: HostSpan,
      inputMs: HostSpan,
      hostMs: HostSpan,
      compileMs: HostSpan,
      deviceMs: HostSpan,
      gapMs: HostSpan,
      lateMs: Type.Number({
        minimum: 0,
        description: 'how much later than the slowest other host its devices have their work at each step'
      })
    }),
    { description: 'all hosts, by index; their steps end together at the collective' }
  ),
  straggler: Type.Union(
    [
      Type.Object({
        host: Type.Integer({ minimum: 0 }),
        lateMs: Type.Number({ minimum: 0 }),
        cause: Type.Union([
          Type.Literal('input'),
          Type.Literal('host'),
          Type.Literal('compile'),
          Type.Literal('gap')
        ])
      }),
      Type.Null()
    ],
    { description: 'the host that the others wait for; null: none' }
  )
});
export type HostsMessage = Static<typeof HostsMessage>;

const Rate = Type.Union([Type.Number({ minimum: 0 }), Type.Null()]);

/** Progress of a run: rates of the last steps, and the use of time over the whole run. At most once per second. */
export const ThroughputMessage = Type.Object({
  type: Type.Literal('pace'),
  time: UnixMs,
  run: Type.String(),
  step: Type.Integer({ minimum: 0, description: 'steps done' }),
  stepsPerSecond: Rate,
  tokensPerSecond: Rate,
  samplesPerSecond: Rate,
  updatesPerSecond: Type.Optional(
    Type.Number({ minimum: 0, description: 'of a run whose steps are several updates each' })
  ),
  etaSeconds: Rate,
  mfu: Type.Union([
    Type.Object({
      value: Type.Union([Type.Number({ minimum: 0 }), Type.Null()], {
        description: 'share of the peak, 0 to 1; null where the peak of the chip is not known'
      }),
      flopsPerStep: Type.Number({ minimum: 0 }),
      flopsPerSecond: Type.Number({ minimum: 0 }),
      peakFlopsPerSecond: Rate,
      peakType: Type.Union([Type.String(), Type.Null()], { description: 'for example `bf16`' }),
      source: Type.Union([Type.Literal('given'), Type.Literal('counted'), Type.Literal('lower-bound')], {
        description:
          'given by the user; counted in the program with its loops; or what of it could be counted, which is a lower bound'
      }),
      missing: Type.Optional(
        Type.Array(Type.String(), { description: 'primitives that make it a lower bound, as jax names them' })
      )
    }),
    Type.Null()
  ]),
  goodput: Type.Object(
    {
      productiveMs: Ms,
      totalMs: Ms,
      badputMs: Type.Record(Type.String(), Ms, {
        description:
          "by cause, in ml-goodput's words: TRAINING_PREP, PROGRAM_STARTUP, DATA_LOADING_SYNC, UNPRODUCTIVE_CHECKPOINT_SAVE_TIME, CUSTOM_BADPUT_EVENTS, OTHER; and DEVICE_IDLE"
      })
    },
    { description: 'productive and bad time add up to the total' }
  )
});
export type ThroughputMessage = Static<typeof ThroughputMessage>;

/** A condition that costs time or will fail, reported once, with its remedy. */
export const AdviceMessage = Type.Object({
  type: Type.Literal('advice'),
  time: UnixMs,
  id: Type.String({ description: 'stable within the process; the same advice comes once' }),
  kind: Type.Union([
    Type.Literal('cpu-backend'),
    Type.Literal('spawn-in-cell'),
    Type.Literal('sync-each-step'),
    Type.Literal('constant-hyperparameter'),
    Type.Literal('ragged-batch'),
    Type.Literal('non-finite-metric'),
    Type.Literal('alert'),
    Type.Literal('slower'),
    Type.Literal('missing-hook'),
    Type.Literal('freed-metric'),
    Type.Literal('too-many-metrics'),
    Type.Literal('unusable-value'),
    Type.Literal('host-differs'),
    Type.Literal('graph-break')
  ]),
  message: Type.String({ description: 'one sentence: what was seen' }),
  remedy: Type.String({ description: 'one sentence: what to do' }),
  location: Type.Union([CodeLocation, Type.Null()]),
  run: Type.Union([Type.String(), Type.Null()])
});
export type AdviceMessage = Static<typeof AdviceMessage>;

const HeldArrays = Type.Array(
  Type.Object({
    bytes: Type.Integer({ minimum: 0, description: 'of all arrays of this entry together' }),
    count: Type.Integer({ minimum: 1 }),
    shape: Type.Array(Type.Integer({ minimum: 0 })),
    dtype: Type.String(),
    names: Type.Array(Type.String(), {
      description: 'who holds it, for example `params`, `Out[7]`, `last traceback: train, x`'
    })
  }),
  { description: 'the largest arrays that live, largest first' }
);
const HeldBytes = Type.Object(
  { traceback: Type.Integer({ minimum: 0 }), outputs: Type.Integer({ minimum: 0 }) },
  { description: 'what the action `free` releases' }
);

/** The device ran out of memory. */
export const MemoryErrorMessage = Type.Object({
  type: Type.Literal('memory-error'),
  time: UnixMs,
  id: Type.String(),
  what: Type.Union([Type.Literal('program'), Type.Literal('allocation'), Type.Literal('other')], {
    description: 'a program needs more than there is, or an array found no room at run time'
  }),
  requestedBytes: Bytes,
  freeBytes: Bytes,
  limitBytes: Bytes,
  text: Type.String({ description: "the runtime's own words, shortened" }),
  arrays: HeldArrays,
  heldBytes: HeldBytes,
  location: Type.Union([CodeLocation, Type.Null()]),
  run: Type.Union([Type.String(), Type.Null()])
});
export type MemoryErrorMessage = Static<typeof MemoryErrorMessage>;

/** The current use of memory: the answer to the action `memory`. */
export const MemoryMessage = Type.Object({
  type: Type.Literal('memory'),
  time: UnixMs,
  totalBytes: Type.Integer({ minimum: 0, description: 'of all live arrays' }),
  arrays: HeldArrays,
  heldBytes: HeldBytes
});
export type MemoryMessage = Static<typeof MemoryMessage>;

/** The devices' activity during some seconds, by XLA operation, as XProf traced it: the answer to the action `profile`. */
export const ProfileMessage = Type.Object({
  type: Type.Literal('profile'),
  time: UnixMs,
  durationMs: Ms,
  folder: Type.String({
    description: "location of the whole trace, on the kernel's machine, for XProf or TensorBoard"
  }),
  devices: Type.Integer({
    minimum: 0,
    description: 'devices that were traced; 0 where operations run on threads of the host'
  }),
  busyMs: Type.Number({ minimum: 0, description: 'of all operations together, on all devices' }),
  operations: Type.Array(
    Type.Object({
      name: Type.String(),
      module: Type.String({
        description: 'the compiled program it is of; empty where the trace does not say'
      }),
      count: Type.Integer({ minimum: 1 }),
      totalMs: Type.Number({ minimum: 0 })
    }),
    { description: 'those that took most, first' }
  )
});
export type ProfileMessage = Static<typeof ProfileMessage>;

export const CompileReason = Type.Object({
  verdict: Type.Union([
    Type.Literal('first'),
    Type.Literal('shape'),
    Type.Literal('dtype'),
    Type.Literal('tree'),
    Type.Literal('static'),
    Type.Literal('redefined'),
    Type.Literal('sharding'),
    Type.Literal('config'),
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
  reason: CompileReason,
  fingerprint: Type.Optional(
    Type.String({
      description: 'of the program that XLA was given; absent until it is known, or where it cannot be'
    })
  ),
  reused: Type.Optional(
    Type.Boolean({ description: 'compiled before the run, which calls it: told for the run alone' })
  ),
  hosts: Type.Optional(
    Type.Array(Type.Integer({ minimum: 0 }), {
      description: 'of a slice: the hosts that compiled it; absent where all did'
    })
  ),
  cache: Type.Optional(
    Type.Object(
      {
        result: Type.Union([Type.Literal('hit'), Type.Literal('miss'), Type.Literal('off')]),
        reason: Type.Union([Type.String(), Type.Null()], { description: 'one sentence: why no hit' })
      },
      { description: 'what the persistent compilation cache did; absent until it is known' }
    )
  )
});
export type CompileMessage = Static<typeof CompileMessage>;

/** Any message of the agent. */
export const TelemetryMessage = Type.Union([
  HelloMessage,
  DevicesMessage,
  RunMessage,
  StepsMessage,
  FiguresMessage,
  MediaMessage,
  BandMessage,
  ThroughputMessage,
  HostsMessage,
  CompileMessage,
  ControlMessage,
  AdviceMessage,
  MemoryErrorMessage,
  MemoryMessage,
  ProfileMessage
]);
export type TelemetryMessage = Static<typeof TelemetryMessage>;
