/** Reads the identifying fields of a message from its frame, without decoding the rest. */

const decoder = new TextDecoder();

/** `header.msg_id` of a frame of `v1.kernel.websocket.jupyter.org`; null for anything else. */
export function messageId(data: unknown): string | null {
  return idIn(data, 2);
}

/** `parent_header.msg_id` of such a frame; null when it has no parent. */
export function parentMessageId(data: unknown): string | null {
  return idIn(data, 3);
}

/** A small record of a possibly large message, sufficient to identify it later. */
export interface IFrameMark {
  readonly channel: string;
  /** The header as received; its fields are read when they are needed. */
  readonly header: Uint8Array;
}

/** Channel and header of such a frame; null for anything else. */
export function frameMark(data: ArrayBuffer): IFrameMark | null {
  try {
    const channel = decoder.decode(partOf(data, 1));
    return { channel, header: partOf(data, 2).slice() };
  } catch {
    return null; // as below
  }
}

export function idOfMark(mark: IFrameMark): string | null {
  return fieldOfMark(mark, 'msg_id');
}

/** The session id of the sender. */
export function sessionOfMark(mark: IFrameMark): string | null {
  return fieldOfMark(mark, 'session');
}

function fieldOfMark({ header }: IFrameMark, field: 'msg_id' | 'session'): string | null {
  try {
    return fieldOf(header, field);
  } catch {
    return null; // as below
  }
}

/** Enough to recognize the subject of a message. */
const START_BYTES = 200;

/** The header of such a frame and the start of its content, as text; null for anything else. */
export function messageStart(
  data: ArrayBuffer
): { readonly header: string; readonly content: string } | null {
  try {
    return {
      header: decoder.decode(partOf(data, 2)),
      content: decoder.decode(partOf(data, 5).subarray(0, START_BYTES))
    };
  } catch {
    return null; // as below
  }
}

function idIn(data: unknown, part: 2 | 3): string | null {
  if (typeof data !== 'object' || data === null || !('byteLength' in data)) return null;
  try {
    return fieldOf(partOf(data as ArrayBuffer | ArrayBufferView, part), 'msg_id');
  } catch {
    return null; // not a known frame; the kernel connection reports the problem
  }
}

/** Offsets in the table: 1 is the channel, 2 the header, 3 the parent header, 4 the metadata, 5 the content. */
function partOf(data: ArrayBuffer | ArrayBufferView, part: 1 | 2 | 3 | 5): Uint8Array {
  const bytes = ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
  const table = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = Number(table.getBigUint64(8 * part, true));
  const end = Number(table.getBigUint64(8 * (part + 1), true));
  return bytes.subarray(start, end);
}

function fieldOf(header: Uint8Array, field: string): string | null {
  const value: unknown = JSON.parse(decoder.decode(header));
  const found: unknown =
    typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[field] : null;
  return typeof found === 'string' && found !== '' ? found : null;
}
