/**
 * The machine on which the gateway runs and its chips: `GET /bridge/v1/devices`, `…/devices/history`, and events of topic
 * `devices` without a kernel. The device data of the runtime inside a kernel is in `telemetry.ts`.
 *
 * Null always means "not known here"; a value that cannot be read is never 0.
 */
import { type Static, Type } from '@sinclair/typebox';
import { RemoteNotice } from './remotes.js';

const orNull = <T extends ReturnType<typeof Type.Number>>(schema: T, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description });
const Text = Type.Union([Type.String(), Type.Null()]);
const Count = orNull(Type.Number({ minimum: 0 }));
const Percent = orNull(Type.Number({ minimum: 0 }), 'percent, 100 is all');
const UnixMs = Type.Number({ minimum: 0, description: 'Unix time in milliseconds' });

/** One generation of chips, per chip. An unknown chip has no spec, and so no MFU. */
export const ChipSpec = Type.Object(
  {
    name: Type.String({ minLength: 1, description: '`v2` to `7x`' }),
    deviceKinds: Type.Array(Type.String(), { description: '`device_kind` in JAX' }),
    pci: Type.Array(Type.Object({ device: Type.String(), subsystem: Text })),
    tensorCores: Type.Integer({ minimum: 1 }),
    devices: Type.Integer({ minimum: 1, description: 'devices that JAX lists for one chip' }),
    hbmGiB: Count,
    usableGiBPerDevice: Count,
    hbmGBPerS: Count,
    iciGBPerS: Count,
    topology: Text,
    tflops: Type.Record(Type.String(), Type.Number({ exclusiveMinimum: 0 }), {
      description: 'peak TFLOP/s (TOP/s for integers) by type: bf16, int8, fp8'
    }),
    chipsPerHost: Type.Array(Type.Integer({ minimum: 1 })),
    source: Type.String({ description: 'source of the values' }),
    notes: Text
  },
  { additionalProperties: false }
);
export type ChipSpec = Static<typeof ChipSpec>;

export const ChipOwner = Type.Object({
  pid: Type.Integer({ minimum: 1 }),
  command: Text,
  kernelId: Type.Union([Type.String(), Type.Null()], { description: 'when it is a kernel of this gateway' })
});
export type ChipOwner = Static<typeof ChipOwner>;

export const Chip = Type.Object({
  index: Type.Integer({ minimum: 0 }),
  pciAddress: Type.String(),
  pciDevice: Type.String({ description: '`0x0063`' }),
  name: Type.Union([Type.String(), Type.Null()], {
    description: 'name of its spec; null for an unknown chip'
  }),
  node: Type.Union([Type.String(), Type.Null()], { description: 'device file' }),
  owners: Type.Array(ChipOwner, { description: 'processes that have it open, as far as this user may see' })
});
export type Chip = Static<typeof Chip>;

export const DeviceFigures = Type.Object({
  ordinal: Type.Integer({ minimum: 0 }),
  chip: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
  hbmUsedBytes: Count,
  hbmTotalBytes: Count,
  dutyCyclePercent: Percent,
  hbmBandwidthPercent: Percent,
  idleS: Count,
  hloQueueSize: Count
});
export type DeviceFigures = Static<typeof DeviceFigures>;

export const HostFigures = Type.Object({
  cpuPercent: orNull(Type.Number({ minimum: 0 }), 'of all cores together, 0 to 100'),
  cores: Type.Integer({ minimum: 1 }),
  load1: Count,
  memoryUsedBytes: Count,
  memoryTotalBytes: Count,
  diskReadBytesPerS: Count,
  diskWrittenBytesPerS: Count,
  networkReceivedBytesPerS: Count,
  networkSentBytesPerS: Count
});
export type HostFigures = Static<typeof HostFigures>;

/** Why device metrics are available, or not. */
export const MetricsState = Type.Object({
  state: Type.Union(
    [Type.Literal('serving'), Type.Literal('idle'), Type.Literal('failing'), Type.Literal('no-chips')],
    {
      description:
        'serving: a process that holds chips tells; idle: chips, but no such process; failing: one that does not answer as it should'
    }
  ),
  detail: Text
});
export type MetricsState = Static<typeof MetricsState>;

/** Values that only libtpu's own SDK can read. A helper process reads them every five seconds. */
export const SdkFigures = Type.Object({
  time: UnixMs,
  tensorCorePercent: Type.Array(Percent, { description: 'by device, in order' }),
  throttlePercent: Type.Array(
    Type.Object({ device: Type.Integer({ minimum: 0 }), percent: Type.Number({ minimum: 0, maximum: 100 }) })
  ),
  links: Type.Array(
    Type.Object({
      name: Type.String({ description: '`tray1.chip3.ici0`' }),
      score: Type.Integer({ minimum: 0, maximum: 10 }),
      state: Type.Union(
        [Type.Literal('ok'), Type.Literal('transient'), Type.Literal('minor'), Type.Literal('unusable')],
        { description: '0; 1 to 5; 6 to 9, which lasts; 10' }
      )
    })
  )
});
export type SdkFigures = Static<typeof SdkFigures>;

export const MachineSample = Type.Object({
  time: UnixMs,
  host: HostFigures,
  devices: Type.Array(DeviceFigures),
  metrics: MetricsState,
  sdk: Type.Optional(SdkFigures)
});
export type MachineSample = Static<typeof MachineSample>;

/** A sample on the events socket: the newest at subscription, then each new one. */
export const MachineEvent = Type.Object({
  topic: Type.Literal('devices'),
  gatewayId: Type.String(),
  machineSeq: Type.Integer({ minimum: 1, description: 'counts the samples of this gateway process' }),
  machine: MachineSample
});
export type MachineEvent = Static<typeof MachineEvent>;

/** Preemption or maintenance of this machine, announced by the cloud; null: withdrawn. Sent at subscription if there is one. */
export const NoticeEvent = Type.Object({
  topic: Type.Literal('devices'),
  gatewayId: Type.String(),
  notice: Type.Union([RemoteNotice, Type.Null()])
});
export type NoticeEvent = Static<typeof NoticeEvent>;

/** Information about the accelerator from the cloud's metadata and the environment. */
export const AcceleratorInfo = Type.Object({
  type: Type.Union([Type.String(), Type.Null()], { description: '`v5litepod-8`' }),
  workerId: Text,
  processBounds: Text,
  chipsPerProcessBounds: Text
});
export type AcceleratorInfo = Static<typeof AcceleratorInfo>;

/** Details that a runtime reports since its process started; all null or empty when none runs. */
export const RuntimeDetails = Type.Object({
  uptimeS: Count,
  errors: orNull(Type.Number(), 'errors between hosts'),
  distributions: Type.Array(
    Type.Object({
      metric: Type.String({ description: 'as libtpu names it' }),
      unit: Type.String({ description: '`us`, `Mbit/s`' }),
      ordinal: orNull(Type.Number({ minimum: 0 }), 'device, where the runtime says'),
      labels: Type.Record(Type.String(), Type.String()),
      count: Type.Number({ minimum: 0 }),
      mean: Type.Number(),
      p50: Count,
      p90: Count,
      p99: Count
    })
  )
});
export type RuntimeDetails = Static<typeof RuntimeDetails>;

/** `GET /bridge/v1/devices` */
export const DevicesPage = Type.Object({
  accelerator: AcceleratorInfo,
  chips: Type.Array(Chip),
  specs: Type.Array(ChipSpec, { description: 'of the chips that are here' }),
  sample: MachineSample,
  runtime: RuntimeDetails,
  sampleHz: Type.Number({ minimum: 0, description: 'samples a second while a page looks' })
});
export type DevicesPage = Static<typeof DevicesPage>;

export const HistoryQuery = Type.Object({
  tier: Type.Optional(
    Type.Union([Type.Literal('1'), Type.Literal('10'), Type.Literal('60')], {
      description: 'seconds a point'
    })
  ),
  from: Type.Optional(
    Type.Number({ minimum: 0, description: 'Unix milliseconds; points before are left out' })
  )
});
export type HistoryQuery = Static<typeof HistoryQuery>;

const Column = Type.Array(Type.Union([Type.Number(), Type.Null()]));

/** `GET /bridge/v1/devices/history`: columns of equal length, oldest first. */
export const DevicesHistory = Type.Object({
  tierS: Type.Integer({ minimum: 1 }),
  times: Type.Array(UnixMs, {
    description: 'where each point begins; where nobody sampled there is no point'
  }),
  series: Type.Record(Type.String(), Type.Object({ min: Column, mean: Column, max: Column }), {
    description: '`host.cpuPercent`, `device.0.hbmUsedBytes`, …'
  })
});
export type DevicesHistory = Static<typeof DevicesHistory>;

/** `PUT /bridge/v1/devices/host-only` */
export const HostOnly = Type.Object(
  { hostOnly: Type.Boolean({ description: 'of a slice: kernels use the chips of this host alone' }) },
  { additionalProperties: false }
);
export type HostOnly = Static<typeof HostOnly>;
