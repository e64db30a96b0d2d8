/** JSON bodies of commands, replies and events between gateway and keeper. */
import type { ControlMessage } from '@tpulab/protocol';
import { either, integer, isShaped, object, oneOf, type Shaped } from '../platform/shape.js';
import type { KernelSnapshot } from './contract.js';
import { CommandShape } from './control-shapes.js';
import { KeeperError } from './keeper-error.js';

/** Raised by a breaking change. The gateway refuses a keeper of another version rather than misread it. */
export const KEEPER_PROTOCOL_VERSION = 1;
/** Told at the first word, because a kernel may be kept by an older keeper than its gateway. */
export const KEEPER_FEATURES: readonly string[] = ['control'];

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
  /** Content (JSON text) of the kernel's last `kernel_info_reply`; null until there was one. */
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

/** A large record, by its place. A gateway that does not know of such notes finds a record missing and reads it from the files. */
export interface LargeRecordRef {
  readonly seq: number;
  /** Unix milliseconds. */
  readonly timeMs: number;
  readonly channel: number;
  /** The segment by its first record, and where in its file the payload begins and how long it is. */
  readonly segment: number;
  readonly offset: number;
  readonly bytes: number;
  /** Header (JSON text) of a client's request; of the kernel's messages, which are read in full, and of one that is itself large, null. */
  readonly header: string | null;
}

export type KeeperEvent =
  /** The first frame on every connection. */
  | {
      readonly event: 'hello';
      readonly version: number;
      readonly shutdownWaitMs: number;
      /** What this keeper understands beyond the first keepers of its version. */
      readonly features?: readonly string[];
      readonly snapshot: KernelSnapshot;
    }
  | { readonly event: 'state'; readonly snapshot: KernelSnapshot }
  /** Nothing is pushed any more, because this gateway reads too slowly: read on in the files from here, then subscribe again. */
  | { readonly event: 'lagging'; readonly fromSeq: number }
  | ({ readonly event: 'stored' } & LargeRecordRef)
  /** The journal cannot be written, or can be again (null). */
  | { readonly event: 'journal'; readonly fault: { readonly code: string; readonly message: string } | null };

export function parseCommand(body: Buffer): Command {
  const value = parseJson(body);
  if (!isShaped(Command, value)) {
    throw new KeeperError('keeper_protocol', 'A command is not one that this keeper knows.');
  }
  return value;
}

/** What a keeper of our own version sends needs no check of its fields, only that it is the frame we think it is. */
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
