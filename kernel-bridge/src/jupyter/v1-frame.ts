/**
 * Frames of the WebSocket subprotocol `v1.kernel.websocket.jupyter.org`, which are also the journal's payload.
 *
 * Little-endian u64 throughout: the count of offsets, the offsets, then channel, header, parent header, metadata,
 * content and buffers. The first offset is where the channel name starts, the last is the frame's length, so there
 * is one offset more than there are parts.
 */
import {
  type ChannelName,
  ifMessage,
  isChannelName,
  JSON_PARTS,
  type KernelMessage,
  parseHeader,
  PART,
  WireError
} from './kernel-message.js';

/** Channel, four JSON parts and the end. */
const MIN_OFFSETS = 1 + JSON_PARTS + 1;

/** More buffers than any widget sends; a larger count is garbage, and reading it would take long. */
const MAX_OFFSETS = 65_536;

const CHANNEL_BYTES: Readonly<Record<ChannelName, Buffer>> = {
  shell: Buffer.from('shell'),
  control: Buffer.from('control'),
  stdin: Buffer.from('stdin'),
  iopub: Buffer.from('iopub')
};

/**
 * The frame as pieces to be written one after the other: the table with the channel name, then the unchanged parts. So a
 * writer copies each part only once, directly to its place.
 */
export function v1Pieces(channel: ChannelName, parts: readonly Buffer[]): Buffer[] {
  const name = CHANNEL_BYTES[channel];
  const offsetCount = parts.length + 2;
  const table = Buffer.allocUnsafe(8 * (1 + offsetCount) + name.length);
  let at = writeU64(table, offsetCount, 0);
  let offset = 8 * (1 + offsetCount);
  at = writeU64(table, offset, at);
  offset += name.length;
  at = writeU64(table, offset, at);
  for (const part of parts) {
    offset += part.length;
    at = writeU64(table, offset, at);
  }
  name.copy(table, at);
  return [table, ...parts];
}

export function encodeV1(message: KernelMessage): Buffer {
  return Buffer.concat(v1Pieces(message.channel, message.parts));
}

/** The parts are views into `frame`. Throws `frame_malformed` or `channel_unknown`, and does not read outside the frame. */
export function decodeV1(frame: Buffer): KernelMessage {
  const offsetCount = frame.length >= 8 ? readU64(frame, 0) : 0;
  if (offsetCount < MIN_OFFSETS || offsetCount > MAX_OFFSETS) {
    throw new WireError(
      'frame_malformed',
      `A v1 frame has at least ${MIN_OFFSETS} offsets, this one says ${offsetCount}.`
    );
  }
  const tableEnd = 8 * (1 + offsetCount);
  if (tableEnd > frame.length) {
    throw new WireError(
      'frame_malformed',
      `The offset table ends at ${tableEnd}, the frame at ${frame.length}.`
    );
  }
  let start = readU64(frame, 8);
  if (start !== tableEnd) {
    throw new WireError(
      'frame_malformed',
      `The first part starts at ${start}, but the offset table ends at ${tableEnd}.`
    );
  }
  const pieces: Buffer[] = [];
  for (let index = 2; index <= offsetCount; index++) {
    const end = readU64(frame, 8 * index);
    if (end < start || end > frame.length) {
      throw new WireError(
        'frame_malformed',
        `Part ${index - 2} would end at ${end} in a frame of ${frame.length} bytes.`
      );
    }
    pieces.push(frame.subarray(start, end));
    start = end;
  }
  if (start !== frame.length) {
    throw new WireError('frame_malformed', `The parts end at ${start}, the frame at ${frame.length}.`);
  }
  const [name, ...parts] = pieces;
  return { channel: channelOf(name), parts };
}

/** The message in a journaled frame; null if it contains none. */
export const messageIn = (frame: Buffer): KernelMessage | null => ifMessage(() => decodeV1(frame));

/** The `msg_id` of the message in a journaled frame; null if it has none. */
export const messageIdIn = (frame: Buffer): string | null =>
  ifMessage(() => parseHeader(v1Part(frame, PART.header) ?? Buffer.alloc(0)).msg_id);

/** One part of a journaled frame: null if the frame has none, or is invalid. `index` as in `PART`. */
export function v1Part(frame: Buffer, index: number): Buffer | null {
  const at = 8 * (index + 2);
  if (index < 0 || frame.length < at + 16 || readU64(frame, 0) < index + 3) return null;
  const [start, end] = [readU64(frame, at), readU64(frame, at + 8)];
  return start <= end && end <= frame.length ? frame.subarray(start, end) : null;
}

/** Where the JSON parts of a frame end, given its first bytes; Infinity if that is unknown. */
export function v1JsonEnd(beginning: Buffer): number {
  const at = 8 * (JSON_PARTS + 2);
  return beginning.length < at + 8 || readU64(beginning, 0) < MIN_OFFSETS ? Infinity : readU64(beginning, at);
}

function channelOf(bytes: Buffer | undefined): ChannelName {
  // Decoded as latin1, so that only the bytes of the name itself match it.
  const name = bytes && bytes.length <= 16 ? bytes.toString('latin1') : '';
  if (!isChannelName(name)) {
    throw new WireError('channel_unknown', 'The channel is none of shell, control, stdin and iopub.');
  }
  return name;
}

/** As a number: offsets past 2^53 are outside any frame and fail the bounds check anyway. */
function readU64(buffer: Buffer, at: number): number {
  return buffer.readUInt32LE(at + 4) * 0x1_0000_0000 + buffer.readUInt32LE(at);
}

function writeU64(buffer: Buffer, value: number, at: number): number {
  buffer.writeUInt32LE(value >>> 0, at);
  return buffer.writeUInt32LE(Math.floor(value / 0x1_0000_0000), at + 4);
}
