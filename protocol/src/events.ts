/**
 * The WebSocket `/bridge/v1/events`: live state of the bridge and telemetry of its kernels.
 *
 * A page sends one `subscribe` and may send another to change it. The gateway answers `subscribed`, then
 * the history that the page has not seen, then live events. Each frame from the gateway is one `EventsFrame`.
 * Telemetry is numbered per kernel by its keeper, so numbers survive a restart of the gateway.
 */
import { type Static, Type } from '@sinclair/typebox';
import { MachineEvent, NoticeEvent } from './devices.js';
import { RemoteEvent } from './remotes.js';
import { TelemetryMessage } from './telemetry.js';

export const EventTopic = Type.Union([
  Type.Literal('devices'),
  Type.Literal('steps'),
  Type.Literal('runs'),
  Type.Literal('compile'),
  Type.Literal('kernels'),
  Type.Literal('clients'),
  Type.Literal('remotes')
]);
export type EventTopic = Static<typeof EventTopic>;

export const SubscribeRequest = Type.Object(
  {
    op: Type.Literal('subscribe'),
    topics: Type.Array(EventTopic, { maxItems: 16 }),
    since: Type.Optional(
      Type.Record(Type.String(), Type.Integer({ minimum: 0 }), {
        description:
          'kernel id to the last telemetry seq that the page has; absent kernels are replayed whole'
      })
    ),
    background: Type.Optional(
      Type.Boolean({
        description: 'the page is hidden: samples of the machine may come seldom; false unless told'
      })
    )
  },
  { additionalProperties: false }
);
export type SubscribeRequest = Static<typeof SubscribeRequest>;

/** Telemetry of one kernel (topics devices, steps, runs, compile). */
export const TelemetryEvent = Type.Object({
  topic: Type.Union([
    Type.Literal('devices'),
    Type.Literal('steps'),
    Type.Literal('runs'),
    Type.Literal('compile')
  ]),
  kernelId: Type.String(),
  seq: Type.Integer({ minimum: 1, description: 'per kernel, without holes unless history was trimmed' }),
  data: TelemetryMessage
});
export type TelemetryEvent = Static<typeof TelemetryEvent>;

/** State of one kernel, sent for every kernel at subscription and at each change (topic kernels). */
export const KernelEvent = Type.Object({
  topic: Type.Literal('kernels'),
  kernelId: Type.String(),
  name: Type.String({ description: 'kernelspec name at the bridge' }),
  executionState: Type.String({
    description: 'starting, idle, busy, restarting, dead; unknown while its keeper does not answer'
  }),
  connections: Type.Integer({ minimum: 0 }),
  reason: Type.Union([Type.String(), Type.Null()], {
    description: 'why the kernel is dead, restarting or unknown, when known'
  }),
  removed: Type.Boolean({ description: 'the kernel has been shut down and is no longer listed' }),
  journalFault: Type.Optional(
    Type.Object(
      { code: Type.String(), message: Type.String() },
      { description: 'what the kernel prints cannot be written down at the moment, and may be lost' }
    )
  )
});
export type KernelEvent = Static<typeof KernelEvent>;

/** State of the gateway's service for one attached client of a kernel (topic clients). */
export const ClientEvent = Type.Object({
  topic: Type.Literal('clients'),
  kernelId: Type.String(),
  sessionId: Type.String({ description: '`session_id` of the channels socket' }),
  state: Type.Union([Type.Literal('replaying'), Type.Literal('live'), Type.Literal('detached')]),
  pending: Type.Integer({ minimum: 0, description: 'records still to be replayed' })
});
export type ClientEvent = Static<typeof ClientEvent>;

/**
 * Events of kernels. Samples of the machine (`MachineEvent`) and states of remotes are sent on the same socket, without a
 * `kernelId`.
 */
export const BridgeEvent = Type.Union([TelemetryEvent, KernelEvent, ClientEvent]);
export type BridgeEvent = Static<typeof BridgeEvent>;

/** A frame from the gateway. */
export const EventsFrame = Type.Union([
  Type.Object({
    op: Type.Literal('subscribed'),
    topics: Type.Array(EventTopic),
    gatewayId: Type.String({ description: 'changes when the gateway process changes' }),
    historyFrom: Type.Record(Type.String(), Type.Integer(), {
      description: 'kernel id to the oldest telemetry seq still held'
    })
  }),
  Type.Object({
    op: Type.Literal('events'),
    events: Type.Array(Type.Union([BridgeEvent, MachineEvent, NoticeEvent, RemoteEvent]))
  }),
  Type.Object({ op: Type.Literal('error'), code: Type.String(), message: Type.String() })
]);
export type EventsFrame = Static<typeof EventsFrame>;
