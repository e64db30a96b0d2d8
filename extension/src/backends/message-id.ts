/** Reads the id of a message out of its frame, without decoding the rest. */

const decoder = new TextDecoder();

/** `header.msg_id` of a frame of `v1.kernel.websocket.jupyter.org`; null for anything else. */
export function messageId(data: unknown): string | null {
  return idIn(data, 2);
}

/** `parent_header.msg_id` of such a frame; null when it has no parent. */
export function parentMessageId(data: unknown): string | null {
  return idIn(data, 3);
}

/** Offsets in the table: 1 is the channel's, 2 that of the header, 3 that of the parent header, 4 what follows it. */
function idIn(data: unknown, part: 2 | 3): string | null {
  if (typeof data !== 'object' || data === null || !('byteLength' in data)) {
    return null;
  }
  try {
    const bytes = ArrayBuffer.isView(data)
      ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
      : new Uint8Array(data as ArrayBuffer);
    const table = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const start = Number(table.getBigUint64(8 * part, true));
    const end = Number(table.getBigUint64(8 * (part + 1), true));
    const header: unknown = JSON.parse(decoder.decode(bytes.subarray(start, end)));
    const id = typeof header === 'object' && header !== null && 'msg_id' in header ? header.msg_id : null;
    return typeof id === 'string' && id !== '' ? id : null;
  } catch {
    return null; // not a frame that we know; the kernel connection says what is wrong with it
  }
}
