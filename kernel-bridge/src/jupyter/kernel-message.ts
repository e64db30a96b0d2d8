import { CodedError } from '@tpulab/platform/errors.js';
import { randomUUID } from 'node:crypto';

/**
 * A Jupyter message as byte ranges: the four JSON parts and the binary buffers stay as received, and are parsed only where
 * the bridge needs their contents.
 */
export type ChannelName = 'shell' | 'control' | 'stdin' | 'iopub';

export interface KernelMessage {
  readonly channel: ChannelName;
  /** header, parent_header, metadata, content, then the buffers; never fewer than four. */
  readonly parts: readonly Buffer[];
}

/** The header fields that the bridge reads. Other fields pass through in the bytes. */
export interface MessageHeader {
  readonly msg_id: string;
  readonly msg_type: string;
  readonly session: string;
  readonly subshell_id?: string | null;
}

/** `[header, parent_header, metadata, content]` come first in `KernelMessage.parts`. */
export const JSON_PARTS = 4;

export const PART = { header: 0, parentHeader: 1, metadata: 2, content: 3 } as const;

export function isChannelName(value: unknown): value is ChannelName {
  return value === 'shell' || value === 'control' || value === 'stdin' || value === 'iopub';
}

/** The header of a message. Throws `header_invalid` unless it has `msg_id`, `msg_type` and `session`. */
export function parseHeader(bytes: Buffer): MessageHeader {
  const header = parseObject(bytes, 'header');
  for (const field of ['msg_id', 'msg_type', 'session']) {
    if (typeof header[field] !== 'string') {
      throw new WireError('header_invalid', `The header has no string "${field}".`);
    }
  }
  return header as unknown as MessageHeader;
}

/** The parent header, or null if there is none (`{}`, as in a kernel's first status). */
export function parseParentHeader(bytes: Buffer): MessageHeader | null {
  if (bytes.length <= 2) return null;
  const parent = parseObject(bytes, 'parent header');
  return typeof parent['msg_id'] === 'string' ? (parent as unknown as MessageHeader) : null;
}

type Parts = Pick<KernelMessage, 'parts'>;

/** The bytes of a part, by its index in `PART`. */
export function partOf({ parts }: Parts, index: number): Buffer {
  return parts[index] ?? Buffer.alloc(0);
}

export const headerOf = (message: Parts): MessageHeader => parseHeader(partOf(message, PART.header));

export const parentOf = (message: Parts): MessageHeader | null =>
  parseParentHeader(partOf(message, PART.parentHeader));

/** Throws `header_invalid` unless it is an object. */
export const contentOf = (message: Parts): Record<string, unknown> =>
  parseObject(partOf(message, PART.content), 'content');

/** Like `contentOf`, for the metadata. */
export const metadataOf = (message: Parts): Record<string, unknown> =>
  parseObject(partOf(message, PART.metadata), 'metadata');

/** A JSON part, unchanged. */
export const textOf = (message: Parts, index: number): string => partOf(message, index).toString('utf8');

/** The result of `read`; null if the bytes are not a message. */
export function ifMessage<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof WireError) return null;
    throw error;
  }
}

/** A JSON part that must be an object. `what` names the part in the error. */
export function parseObject(bytes: Buffer, what: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString('utf8'));
  } catch (cause) {
    throw new WireError('header_invalid', `The ${what} is not JSON.`, { cause });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new WireError('header_invalid', `The ${what} is not a JSON object.`);
  }
  return value as Record<string, unknown>;
}

/** Every reason why bytes from a kernel or a client are not a Jupyter message. */
export type WireErrorCode =
  | 'frame_malformed'
  | 'frame_too_large'
  | 'channel_unknown'
  | 'header_invalid'
  | 'signature_invalid'
  | 'scheme_unsupported';

/** Thrown for bytes that are not a Jupyter message. The error text never contains the bytes themselves. */
export class WireError extends CodedError<WireErrorCode> {}

/** The protocol version that we use; kernels and clients support older and newer ones. */
const VERSION = '5.4';
const EMPTY = Buffer.from('{}');

/** Messages that the bridge itself creates: header, parent header, metadata and content. */
export interface NewMessage {
  readonly msgType: string;
  /**
   * `header.session`. Messages to a client carry the kernel's own: JupyterLab takes another session for a restart of the
   * kernel, and drops its queued work.
   */
  readonly session: string;
  readonly msgId?: string;
  /** Header of the request that the message belongs to, as JSON. */
  readonly parent?: Buffer | string;
  readonly metadata?: object;
  readonly content?: object;
}

export function newMessage(made: NewMessage): Buffer[] {
  const { parent, metadata, content } = made;
  return [
    Buffer.from(newHeader(made)),
    parent === undefined ? EMPTY : Buffer.from(parent),
    metadata === undefined ? EMPTY : Buffer.from(JSON.stringify(metadata)),
    content === undefined ? EMPTY : Buffer.from(JSON.stringify(content))
  ];
}

/** The header alone, as JSON; also used as the parent of a message about a request that no client sent. */
export function newHeader({ msgType, session, msgId = randomUUID() }: NewMessage): string {
  const date = new Date().toISOString();
  return JSON.stringify({
    msg_id: msgId,
    msg_type: msgType,
    session,
    username: 'tpulab',
    date,
    version: VERSION
  });
}
