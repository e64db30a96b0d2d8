/**
 * A Jupyter message as byte ranges: the four JSON parts and the binary buffers stay the bytes that were
 * received, and are parsed only where a part of the bridge must look inside.
 */
import { WireError } from './wire-error.js';

export type ChannelName = 'shell' | 'control' | 'stdin' | 'iopub';

export interface KernelMessage {
  readonly channel: ChannelName;
  /** header, parent_header, metadata, content, then the buffers; never fewer than four. */
  readonly parts: readonly Buffer[];
}

/** What the bridge reads of a header. Other fields pass through in the bytes. */
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

/** The parent header, or null where there is none (`{}`, as in a kernel's first status). */
export function parseParentHeader(bytes: Buffer): MessageHeader | null {
  if (bytes.length <= 2) return null;
  const parent = parseObject(bytes, 'parent header');
  return typeof parent['msg_id'] === 'string' ? (parent as unknown as MessageHeader) : null;
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
