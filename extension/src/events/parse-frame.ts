/** Turns the text of a frame from the gateway into typed events, once, on arrival. */
import type { TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import {
  AdviceMessage,
  BandMessage,
  type BridgeEvent,
  ClientEvent,
  CompileMessage,
  ControlMessage,
  DevicesMessage,
  FiguresMessage,
  MediaMessage,
  HelloMessage,
  KernelEvent,
  MachineEvent,
  MemoryErrorMessage,
  MemoryMessage,
  HostsMessage,
  ThroughputMessage,
  ProfileMessage,
  RemoteEvent,
  RunMessage,
  StepsMessage,
  type TelemetryMessage
} from '@tpulab/protocol';

/** Events that this page handles. */
type PageEvent = BridgeEvent | MachineEvent | RemoteEvent;

export type ParsedFrame =
  | {
      readonly op: 'subscribed';
      readonly gatewayId: string;
      readonly historyFrom: Readonly<Record<string, number>>;
    }
  | {
      readonly op: 'events';
      readonly events: readonly PageEvent[];
      /** Events that this page does not understand (a newer bridge, or damage); the others remain usable. */
      readonly skipped: number;
    }
  | { readonly op: 'error'; readonly code: string; readonly message: string };

/** Not a frame of the bridge. The stream is unusable after it. */
export class FrameError extends Error {
  readonly code = 'events.bad_frame';

  constructor(detail: string, options?: ErrorOptions) {
    super(
      `The TPULab server sent a frame that this page cannot read (${detail}); the page and the TPULab server may be of different versions: update both.`,
      options
    );
    this.name = 'FrameError';
  }
}

const TELEMETRY: Readonly<Record<TelemetryMessage['type'], { readonly static: TelemetryMessage }>> = {
  hello: HelloMessage,
  devices: DevicesMessage,
  run: RunMessage,
  steps: StepsMessage,
  figures: FiguresMessage,
  media: MediaMessage,
  band: BandMessage,
  pace: ThroughputMessage,
  hosts: HostsMessage,
  compile: CompileMessage,
  control: ControlMessage,
  advice: AdviceMessage,
  'memory-error': MemoryErrorMessage,
  memory: MemoryMessage,
  profile: ProfileMessage
};

type Fields = Readonly<Record<string, unknown>>;

/** @throws FrameError when the text is no frame at all */
export function parseFrame(text: string): ParsedFrame {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new FrameError('not JSON', { cause: error });
  }
  if (!isFields(value)) {
    throw new FrameError('not an object');
  }
  switch (value['op']) {
    case 'events':
      return parseEvents(value['events']);
    case 'subscribed':
      return parseSubscribed(value);
    case 'error':
      return {
        op: 'error',
        code: typeof value['code'] === 'string' ? value['code'] : 'unknown',
        message: typeof value['message'] === 'string' ? value['message'] : ''
      };
    default:
      throw new FrameError('unknown op');
  }
}

function parseSubscribed(value: Fields): ParsedFrame {
  const { gatewayId, historyFrom } = value;
  if (typeof gatewayId !== 'string' || !isFields(historyFrom)) {
    throw new FrameError('subscribed without gatewayId or historyFrom');
  }
  const from: Record<string, number> = {};
  for (const [kernelId, seq] of Object.entries(historyFrom)) {
    if (typeof seq === 'number') {
      from[kernelId] = seq;
    }
  }
  return { op: 'subscribed', gatewayId, historyFrom: from };
}

function parseEvents(value: unknown): ParsedFrame {
  if (!Array.isArray(value)) {
    throw new FrameError('events is not a list');
  }
  const events: PageEvent[] = [];
  for (const item of value as unknown[]) {
    const event = parseEvent(item);
    if (event) {
      events.push(event);
    }
  }
  return { op: 'events', events, skipped: value.length - events.length };
}

/** Null for an event of an unknown or damaged kind. Checks one schema only, because steps may arrive in hundreds. */
function parseEvent(value: unknown): PageEvent | null {
  if (!isFields(value)) {
    return null;
  }
  switch (value['topic']) {
    case 'kernels':
      return fits(KernelEvent, value) ? value : null;
    case 'clients':
      return fits(ClientEvent, value) ? value : null;
    case 'remotes':
      return fits(RemoteEvent, value) ? value : null;
    case 'devices':
    case 'steps':
    case 'runs':
    case 'compile': {
      if ('machine' in value) {
        return fits(MachineEvent, value) ? value : null;
      }
      const { kernelId, seq, topic, data } = value;
      if (
        typeof kernelId !== 'string' ||
        !Number.isInteger(seq) ||
        (seq as number) < 1 ||
        !isTelemetry(data)
      ) {
        return null;
      }
      return { topic, kernelId, seq: seq as number, data };
    }
    default:
      return null;
  }
}

function isTelemetry(data: unknown): data is TelemetryMessage {
  if (!isFields(data) || typeof data['type'] !== 'string' || !Object.hasOwn(TELEMETRY, data['type'])) {
    return false;
  }
  return fits(TELEMETRY[data['type'] as keyof typeof TELEMETRY], data);
}

/** The compiler sees TypeBox's types twice (once through the protocol's declarations) and treats them as different. */
function fits<T>(schema: { readonly static: T }, value: unknown): value is T {
  return Value.Check(schema as unknown as TSchema, value);
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
