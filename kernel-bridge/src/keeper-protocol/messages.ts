/** JSON bodies of commands, replies and events between gateway and keeper. */
import type { ControlCommand, ControlMessage } from '@tpulab/protocol';
import {
  either,
  integer,
  isShaped,
  number,
  object,
  oneOf,
  orNull,
  type Shape,
  type Shaped,
  text,
  truth
} from '@tpulab/platform/shape.js';
import type { KernelSnapshot } from './contract.js';
import { KeeperError } from './keeper-error.js';

/** Increased by a breaking change. The gateway refuses a keeper of another version rather than misread it. */
export const KEEPER_PROTOCOL_VERSION = 1;
/** Sent in the first message, because a keeper may be older than its gateway. */
export const KEEPER_FEATURES: readonly string[] = ['control'];

const Action = oneOf(
  'pause',
  'resume',
  'stop',
  'set',
  'checkpoint',
  'evaluate',
  'sample',
  'call',
  'branch',
  'free',
  'memory',
  'profile'
);
const HyperValue = either(number(), truth, text({ max: 1_000 }));

/** Commands to a run and their results, as in `protocol/src/control.ts` (spec), for a keeper that forwards them. */
export const CommandShape: Shape<ControlCommand> = object(
  { id: text({ min: 1, max: 64, pattern: /^[A-Za-z0-9._-]+$/ }), action: Action },
  { run: orNull(text({ max: 64 })), name: text({ max: 200 }), value: HyperValue, step: integer({ min: 0 }) },
  { exact: true }
);

const MessageShape: Shape<ControlMessage> = object({
  type: oneOf('control'),
  time: number({ min: 0 }),
  id: text(),
  run: orNull(text()),
  action: Action,
  name: orNull(text()),
  value: orNull(HyperValue),
  before: orNull(HyperValue),
  origin: oneOf('page', 'code'),
  phase: oneOf('accepted', 'applied', 'refused', 'expired', 'failed'),
  step: orNull(integer({ min: 0 })),
  durationMs: orNull(number({ min: 0 })),
  reason: orNull(text())
});

const Command = either(
  object({ id: integer(), op: oneOf('status') }),
  object({ id: integer(), op: oneOf('subscribe') }),
  object({ id: integer(), op: oneOf('telemetry'), since: integer({ min: 0 }) }),
  object({ id: integer(), op: oneOf('control'), command: CommandShape }),
  object({ id: integer(), op: oneOf('interrupt') }),
  object({ id: integer(), op: oneOf('restart') }),
  object({ id: integer(), op: oneOf('shutdown') })
);
export type Command = Shaped<typeof Command>;

export interface StatusReply {
  readonly snapshot: KernelSnapshot;
  /** Content (JSON text) of the kernel's last `kernel_info_reply`; null until there is one. */
  readonly kernelInfo: string | null;
}

export interface CommandReplies {
  readonly status: StatusReply;
  readonly subscribe: { readonly liveFrom: number };
  readonly telemetry: { readonly historyFrom: number; readonly lastSeq: number };
  readonly control: { readonly message: ControlMessage };
  readonly interrupt: object;
  readonly restart: { readonly snapshot: KernelSnapshot };
  readonly shutdown: object;
}

export type Reply =
  | { readonly id: number; readonly ok: true; readonly value: object }
  | { readonly id: number; readonly ok: false; readonly code: string; readonly message: string };

/**
 * The location of a large record. A gateway without support for such notes detects a missing record and reads it from the
 * files.
 */
export interface LargeRecordRef {
  readonly seq: number;
  /** Unix milliseconds. */
  readonly timeMs: number;
  readonly channel: number;
  /** The segment by its first record, and the start and length of the payload in its file. */
  readonly segment: number;
  readonly offset: number;
  readonly bytes: number;
  /** Header (JSON text) of a client's request; null for the kernel's messages, which are read in full, and for a large header. */
  readonly header: string | null;
}

export type KeeperEvent =
  /** The first frame on every connection. */
  | {
      readonly event: 'hello';
      readonly version: number;
      readonly shutdownWaitMs: number;
      /** Features that this keeper supports beyond the first keepers of its version. */
      readonly features?: readonly string[];
      readonly snapshot: KernelSnapshot;
    }
  | { readonly event: 'state'; readonly snapshot: KernelSnapshot }
  /** The keeper stops pushing because this gateway reads too slowly: continue in the files from here, then subscribe again. */
  | { readonly event: 'lagging'; readonly fromSeq: number }
  | ({ readonly event: 'stored' } & LargeRecordRef)
  /** The journal cannot be written, or can be written again (null). */
  | { readonly event: 'journal'; readonly fault: { readonly code: string; readonly message: string } | null };

export function parseCommand(body: Buffer): Command {
  const value = parseJson(body);
  if (!isShaped(Command, value)) {
    throw new KeeperError('keeper_protocol', 'A command is not one that this keeper knows.');
  }
  return value;
}

/** For a keeper of our own version the fields need no check, only the kind of message. */
export function parseReply(body: Buffer): Reply {
  return parseJson(body) as Reply;
}

export function parseEvent(body: Buffer): KeeperEvent {
  return parseJson(body) as KeeperEvent;
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch (cause) {
    throw new KeeperError('keeper_protocol', 'A frame between keeper and server is not JSON.', { cause });
  }
}

/** Whether a message of an agent reports the result of a command. */
export function isControlMessage(value: Readonly<Record<string, unknown>>): value is ControlMessage {
  return value['type'] === 'control' && isShaped(MessageShape, value);
}
